// The sample: three short documents of a fictional company.

import { post } from "../api.js";

export const COLLECTION = "sample";
const DOCUMENTS = {
  "Leave": `# Leave

Everybody at Lantern Books has 28 days of paid leave a year. In the first year, leave is counted from the first month.

## Carrying days over

Up to five unused days may be taken until the end of March of the next year. After that they expire.

## Sick leave

Please call the front desk before ten in the morning. A doctor's note is needed from the third day on.`,
  "Travel": `# Travel

Book trains through the office in Bremen, at least a week ahead. \
First class is paid for journeys of more than four hours.

## Meals

The company pays 32 euros for meals on each full day of travel, and 16 euros on the day of departure and of return.

## Refunds

Send receipts to accounting within thirty days. Refunds are paid with the next salary.`,
  "Equipment": `# Equipment

New colleagues choose a laptop in their first week. Laptops are replaced after four years.

| device | replaced after | who orders it |
|---|---|---|
| laptop | 4 years | IT |
| telephone | 3 years | IT |
| desk chair | 8 years | front desk |

## A lost device

Report a lost device to IT on the same day, so that its data can be erased remotely.`,
};

/** Upload the sample into a collection of its own. Uploading it again changes nothing. */
export async function addSample() {
  for (const [title, text] of Object.entries(DOCUMENTS)) {
    const name = title.toLowerCase();
    await post("/v1/documents", {
      text,
      title,
      filename: `${name}.md`,
      external_id: `sample-${name}`,
      collection: COLLECTION,
    });
  }
}
