/** The words of these modules are English; in another language the page loads /words.js before them, which is Django's catalogue. */

export const language = document.documentElement.lang || "en";

const catalogue = globalThis.django;

const filled = (text, values) => text.replace(/%\((\w+)\)s/g, (_, name) => values[name]);

/** A text in the page's language; `%(name)s` in it stands for a value. */
export const gettext = (text, values = {}) => filled(catalogue?.gettext ? catalogue.gettext(text) : text, values);

/** The same for a number of things. */
export const ngettext = (one, many, count, values = {}) => filled(catalogue?.ngettext ? catalogue.ngettext(one, many, count) : count === 1 ? one : many, { count, ...values });
