/**
 * Follows the pages of a list. Each page contains the cursor of the next page. The number of pages is limited, so that
 * an exchange whose list never ends cannot keep a client busy forever.
 */

import { SibylError } from './sibyl-error.ts'

/**
 * Maximum number of pages that the client requests of one list. No list needs this many pages: even if a page of a
 * filtered list shows few entries, the exchange has scanned 1,000 entries for it.
 */
const PAGES_MAX = 100_000

/**
 * Returns a function that checks the cursor of the next page and returns it, or undefined after the last page. The
 * function throws if two successive cursors are equal, or if there are too many pages.
 */
export function pageNames(): (next: string | null | undefined) => string | undefined {
  let before: string | undefined
  let pages = 0
  return (next) => {
    if (next === undefined || next === null) return undefined
    if (next === before || ++pages >= PAGES_MAX) {
      throw new SibylError(
        'UNEXPECTED_ANSWER',
        `the exchange returned the same page twice, or more than ${PAGES_MAX} pages`,
      )
    }
    before = next
    return next
  }
}
