/** What a selector finds: TypeScript does not read the pages, so any element may be a field, a form, a dialog or a time. */
interface Found extends HTMLElement {
  checked: boolean;
  dateTime: string;
  defaultValue: string;
  disabled: boolean;
  firstElementChild: Found | null;
  parentElement: Found | null;
  lastElementChild: Found | null;
  form: HTMLFormElement;
  href: string;
  hidePopover(): void;
  indeterminate: boolean;
  open: boolean;
  pathname: string;
  value: string;
  cloneNode(deep?: boolean): Found;
  close(): void;
  closest(selectors: string): Found | null;
  showModal(): void;
}

interface ParentNode {
  querySelector(selectors: string): Found | null;
  querySelectorAll(selectors: string): NodeListOf<Found>;
}

/** What parts of a page tell one another. */
interface DocumentEventMap {
  decided: CustomEvent<{ pause: string; html: string; beside: boolean }>;
  reached: CustomEvent<boolean>;
}

/** What the pages listen to comes from elements. */
interface EventTarget {
  closest(selectors: string): Found | null;
}
