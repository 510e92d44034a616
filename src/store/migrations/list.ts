/** The migrations in the order in which they run. Append only. */

import { baselineOf } from './018-baseline.ts'
import { settlementNotesOf } from './019-settlement-notes.ts'
import { transparencyOf } from './020-transparency.ts'
import { deadmanOf } from './021-deadman.ts'
import { publicBooksOf } from './022-public-books.ts'
import { marketCategoriesOf } from './023-market-categories.ts'
import { delegatesOf } from './024-delegates.ts'
import { orderTagsOf } from './025-order-tags.ts'
import { eventsOf } from './026-events.ts'
import { complementaryOf } from './027-complementary.ts'
import { faultsAndSubmissionsOf } from './028-faults-and-submissions.ts'
import { cosignedOf } from './029-cosigned.ts'
import { quickMatchingOf } from './030-quick-matching.ts'
import { deadmanDelegatesOf } from './031-deadman-delegates.ts'

export const migrationsOf = (dialect: 'sqlite' | 'mysql') => [
  { name: '018-baseline', class: baselineOf(dialect) },
  { name: '019-settlement-notes', class: settlementNotesOf(dialect) },
  { name: '020-transparency', class: transparencyOf(dialect) },
  { name: '021-deadman', class: deadmanOf(dialect) },
  { name: '022-public-books', class: publicBooksOf(dialect) },
  { name: '023-market-categories', class: marketCategoriesOf(dialect) },
  { name: '024-delegates', class: delegatesOf(dialect) },
  { name: '025-order-tags', class: orderTagsOf(dialect) },
  { name: '026-events', class: eventsOf(dialect) },
  { name: '027-complementary', class: complementaryOf(dialect) },
  { name: '028-faults-and-submissions', class: faultsAndSubmissionsOf(dialect) },
  { name: '029-cosigned', class: cosignedOf(dialect) },
  { name: '030-quick-matching', class: quickMatchingOf(dialect) },
  { name: '031-deadman-delegates', class: deadmanDelegatesOf(dialect) },
]
