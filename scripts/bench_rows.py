"""The rows of bench/rows.json: what must be reached, and the values that results have for them. For predict_rows.py and
measure_rows.py; no command of its own."""
import csv
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS_FILE = ROOT / "bench/rows.json"
RESULTS = ROOT / "bench/results"
SECONDS_TO_UNIT = {"ms a token": 1e3, "ms": 1e3, "us": 1e6}


def load_rows(num_devices, path=ROWS_FILE):
    """Profile and the rows of hosts with so many GPUs, what differs by their number filled in."""
    table = json.loads(pathlib.Path(path).read_text())
    rows = []
    for row in table["rows"]:
        if num_devices not in row["devices"]:
            continue
        chosen = {**row, "num_devices": num_devices}
        for key in ("must", "aim", "must_times", "aim_times", "clients"):
            value = row.get(key)
            chosen[key] = value.get(str(num_devices)) if isinstance(value, dict) else value
        rows.append(chosen)
    return table["profile"], rows


def filled(text, row, clients=0):
    """`text` with the row's numbers in place of {n}, {gpus} and {clients}."""
    count = row["num_devices"]
    gpus = "--devices " + ",".join(str(gpu) for gpu in range(count))
    return text.format(n=count, gpus=gpus, clients=clients)


def num_requests(row, clients):
    """Of a closed loop: each client sends so many, one after the other."""
    return row.get("rounds", 2) * clients


def is_lower_better(row):
    return row["unit"] in SECONDS_TO_UNIT


def in_unit(row, seconds, tokens=1):
    """Seconds of a token, a step or a message as the row's unit; `tokens` that these seconds yield."""
    if row["unit"] == "tokens/s":
        return tokens / seconds
    return SECONDS_TO_UNIT[row["unit"]] * seconds / (tokens if row["unit"] == "ms a token" else 1)


def bench_value(row, result):
    """The row's figure of a line that `baleen bench --json` printed, or of a line of a CSV of kernels."""
    if row["kind"] == "closed":
        return result["total_tokens_per_second_of_a_rank"]
    if row["kind"] == "message":
        return in_unit(row, 1e-6 * float(result["median_us"]))
    phase = result["phases"][0]
    return in_unit(row, phase["seconds"], phase["tokens"])


def field(result, path):
    for key in path.split("."):
        result = result[int(key)] if isinstance(result, list) else result.get(key, "")
    return result


def lines_of(path):
    if not path.exists():
        return []
    if path.suffix == ".csv":
        with open(path) as file:
            return list(csv.DictReader(file))
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def kept_result(row, sources, results, clients=0):
    """The last line of the first source that has one for this row; (line, file) or None."""
    for source in sources:
        name = filled(source["file"], row, clients)
        where = {key: filled(str(value), row, clients) for key, value in source["where"].items()}
        fits = [line for line in lines_of(results / name)
                if all(str(field(line, key)) == value for key, value in where.items())]
        if fits:
            return fits[-1], name
    return None


def measured(row, results=RESULTS, clients=0):
    """(value, file) from the kept results: those of measure_rows.py before earlier ones. None where there is none."""
    own = {"file": "rows-h200-x{n}.jsonl", "where": {"id": row["id"], "clients": "{clients}"}}
    found = kept_result(row, [own], results, clients)
    if found is not None and "refused" not in found[0]:
        return bench_value(row, found[0]), found[1]
    found = kept_result(row, row.get("kept", []), results, clients)
    return found and (bench_value(row, found[0]), found[1])


def refusal(row, results=RESULTS, clients=0):
    """What the program said where it could not run the row on this many GPUs; None where it could, or was not asked."""
    own = {"file": "rows-h200-x{n}.jsonl", "where": {"id": row["id"], "clients": "{clients}"}}
    found = kept_result(row, [own], results, clients)
    return found[0].get("refused") if found else None


def limits(row, results=RESULTS):
    """(must, aim) in the row's unit; of rows that are wanted so many times as quick as another, from its measured time."""
    must, aim = row.get("must"), row.get("aim")
    if row.get("must_times") or row.get("aim_times"):
        against = kept_result(row, row["against"], results)
        if against is None:
            return None, None
        other = bench_value(row, against[0])
        must, aim = other / row["must_times"], other / row["aim_times"]
    return must, aim


def verdict(row, value, must, aim):
    """Of a measured value: reached, or missed by how much of what must be."""
    def reaches(limit):
        return value <= limit if is_lower_better(row) else value >= limit

    if aim is not None and reaches(aim):
        return "aim reached"
    if must is None:
        return "" if aim is None else f"aim missed by {100 * abs(value / aim - 1):.0f} %"
    return "must reached" if reaches(must) else f"must missed by {100 * abs(value / must - 1):.0f} %"
