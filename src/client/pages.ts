/** Follows the pages of a list, whose next one the exchange names: a list without an end must not run for ever. */

import { SibylError } from './sibyl-error.ts'

/** More than any exchange has: a page of a filtered list scans 1,000 entries. */
const PAGES_MAX = 100_000

/** Returns a function that takes the name of the next page and returns it; undefined after the last page. */
export function pageNames(): (next: string | null | undefined) => string | undefined {
  let before: string | undefined
  let pages = 0
  return (next) => {
    if (next === undefined || next === null) return undefined
    if (next === before || ++pages >= PAGES_MAX) {
      throw new SibylError('UNEXPECTED_ANSWER', 'the exchange names a next page without an end')
    }
    before = next
    return next
  }
}
