/**
 * Follows the pages of a list; each page names the next page. The number of pages is limited, so that an exchange whose
 * list never ends cannot keep a client busy forever.
 */

import { SibylError } from './sibyl-error.ts'

/** Maximum number of pages. No list is that long, because each page of a filtered list scans 1,000 entries. */
const PAGES_MAX = 100_000

/**
 * Returns a function that checks and returns the name of the next page, or undefined after the last page. It throws if
 * a page repeats, or if there are too many pages.
 */
export function pageNames(): (next: string | null | undefined) => string | undefined {
  let before: string | undefined
  let pages = 0
  return (next) => {
    if (next === undefined || next === null) return undefined
    if (next === before || ++pages >= PAGES_MAX) {
      throw new SibylError(
        'UNEXPECTED_ANSWER',
        `the exchange repeats a page, or has more than ${PAGES_MAX} pages`,
      )
    }
    before = next
    return next
  }
}
