// The choice of the page's language.

import { html } from "../vendor/lit-html.js";
import { LANGUAGES, chooseLanguage, chosenLanguage, language, say } from "./words.js";

export function languagePicker() {
  /** @param {On<HTMLSelectElement>} event */
  const choose = (event) => chooseLanguage(event.target.value);
  const isChosen = Boolean(chosenLanguage());
  return html`<label class="picker language"><span class="hidden">${say`Language`}</span><select @change=${choose}>
    ${LANGUAGES.map(
      ([name, words]) => html`<option value=${name} lang=${name} ?selected=${name === language}>${words}</option>`,
    )}
    ${isChosen ? html`<option value="">${say`Browser\u2019s language`}</option>` : ""}</select></label>`;
}
