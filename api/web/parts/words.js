// The words of the page: English in the code, and a translation if the browser's language has one.

import { remember, remembered } from "../store.js";

/** @typedef {"en" | "de" | "zh"} Language */

/** The languages of the page, each with its own name. @type {[Language, string][]} */
export const LANGUAGES = [["en", "English"], ["de", "Deutsch"], ["zh", "简体中文"]];

/** @typedef {Record<string, string>} Catalogue */
/** @type {Record<string, (part: string) => Promise<{default: Catalogue}>>} English needs no catalogue */
const CATALOGUES = { de: (part) => import(`../words/de.js${part}`), zh: (part) => import(`../words/zh.js${part}`) };
const TAGS = { en: "en", de: "de", zh: "zh-Hans" };
const TRADITIONAL = /^zh-(?:hant|tw|hk|mo)\b/i;
const CHOICE = "language";
const CATEGORIES = /** @type {const} */ (["zero", "one", "two", "few", "many", "other"]);

/**
 * Return the first preferred language that the page has.
 * @param {readonly string[]} preferred tags of languages
 * @returns {Language}
 */
export function negotiated(preferred) {
  for (const tag of preferred) {
    if (TRADITIONAL.test(tag)) continue; // its readers may prefer their next language to simplified characters
    const found = LANGUAGES.find(([name]) => name === tag.toLowerCase().split("-")[0]);
    if (found) return found[0];
  }
  return "en";
}

const isKnown = (/** @type {string} */ name) => LANGUAGES.some(([each]) => each === name);

/** Return the user's choice; empty: the browser's language. */
export const chosenLanguage = () => (isKnown(remembered(CHOICE)) ? remembered(CHOICE) : "");

/**
 * Choose a language. Modules have their labels already, so the page is loaded again.
 * @param {string} name empty: the browser's language
 */
export function chooseLanguage(name) {
  remember(CHOICE, name);
  location.reload();
}

/**
 * Load the catalogue of a language. Without it, the page is English.
 * @param {Language} wanted @param {string} part query with the screen whose words are wanted; empty: all words
 * @returns {Promise<[Language, Catalogue]>}
 */
async function loaded(wanted, part) {
  try {
    return [wanted, { ...(await CATALOGUES[wanted]?.(part))?.default }];
  } catch {
    return ["en", {}];
  }
}

// Modules that import this one are evaluated when the catalogue is loaded, so their constants may contain words. The
// document loads this module on its own, too, so that it requests the catalogue while the other modules arrive. It
// names its screen: most words of the page belong to other screens.
const { screen = "" } = document.documentElement.dataset ?? {};
const wanted = /** @type {Language} */ (chosenLanguage()) || negotiated(navigator.languages);
const [language, catalogue] = await loaded(wanted, screen && `?${screen}`);
/** @type {Promise<unknown> | null} */
let all = null;

/** Load the words of all screens. Another screen than the document's is imported after that. */
export const loadWords = () => (all ??= loaded(language, "").then(([, words]) => Object.assign(catalogue, words)));

export { language };

/** The tag for numbers and dates. */
export const locale = TAGS[language];
document.documentElement.lang = locale;

/**
 * Return a function that makes a value at its first call. Formats are made so, because all of them together would take
 * a sixth of the processor's time until the first screen.
 * @template Value @param {() => Value} make @returns {() => Value}
 */
export function once(make) {
  /** @type {Value | undefined} */
  let made;
  return () => (made ??= make());
}

const plurals = once(() => {
  const rules = new Intl.PluralRules(locale);
  const { pluralCategories } = rules.resolvedOptions();
  return { rules, forms: CATEGORIES.filter((each) => pluralCategories.includes(each)) };
});

/**
 * Return words in the page's language: say`Page ${number} of ${many}`. The text in the catalogue has {0} and {1} for
 * the values, in any order. The result is a string, or an array for the renderer if a value is a template.
 * @template {unknown[]} Values
 * @param {TemplateStringsArray} strings @param {Values} values
 * @returns {Values extends (string | number)[] ? string : string | unknown[]}
 */
export function say(strings, ...values) {
  const key = strings.reduce((text, part, index) => `${text}{${index - 1}}${part}`);
  const translated = catalogue[key];
  const parts = translated === undefined
    ? strings.flatMap((part, index) => (index ? [values[index - 1], part] : [part]))
    : translated.split(/\{(\d+)\}/).map((part, index) => (index % 2 ? values[Number(part)] : part));
  const isText = values.every((value) => typeof value === "string" || typeof value === "number");
  return /** @type {any} */ (isText ? parts.join("") : parts);
}

/**
 * Return a number with its noun.
 * @param {number} value
 * @param {string} written the number as the page writes it
 * @param {string} one
 * @param {string} many
 */
export function counted(value, written, one, many) {
  const translated = catalogue[`{0} ${one}|{0} ${many}`];
  if (translated === undefined) return `${written} ${value === 1 ? one : many}`;
  const texts = translated.split("|");
  const { rules, forms } = plurals();
  return (texts[forms.indexOf(rules.select(value))] ?? texts[texts.length - 1]).replace("{0}", () => written);
}
