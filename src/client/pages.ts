/**
 * Follows the pages of a list. Each page contains the cursor of the next page. The number of pages is limited, so that
 * an exchange whose list never ends cannot keep a client busy forever.
 */

import { SibylError } from './sibyl-error.ts'

/**
 * Maximum number of pages. Each page of a filtered list scans 1,000 entries, so even the longest list needs
 * fewer pages.
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
