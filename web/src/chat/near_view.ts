/** Which elements of a scrolling view are close to what is seen. */
const kNearPx = 1200;

class NearObserver {
  private callbacks = new WeakMap<Element, () => void>();
  private observer: IntersectionObserver;

  constructor(root: Element) {
    const onChange = (entries: IntersectionObserverEntry[]) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) this.callbacks.get(target)?.();
    };
    this.observer = new IntersectionObserver(onChange, { root, rootMargin: `${kNearPx}px 0px` });
  }

  observe(element: Element, onNear: () => void): () => void {
    this.callbacks.set(element, onNear);
    this.observer.observe(element);
    return () => this.observer.unobserve(element);
  }
}

const observers = new WeakMap<Element, NearObserver>();

/** Calls `onNear` when `element` comes close to the visible part of `root`. Returns what ends the observation. */
export function observeNear(root: Element, element: Element, onNear: () => void): () => void {
  const observer = observers.get(root) ?? new NearObserver(root);
  observers.set(root, observer);
  return observer.observe(element, onNear);
}
