/**
 * Follows the pages of a list, each of which names the next one. An exchange whose list never ends must not keep a
 * client busy for ever.
 */

import { SibylError } from './sibyl-error.ts'

/** Maximum number of pages: more than any list has, because a page of a filtered list scans 1,000 entries. */
const PAGES_MAX = 100_000

/**
 * Returns a function that checks the name of each next page and returns it; undefined after the last page. It throws if
 * the names never end.
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
