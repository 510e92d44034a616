/**
 * Access to the journal (the table of transactions sent with the exchange's keys) for all threads except the store
 * thread. These threads read the database themselves and write through the write queue.
 */

import { Fault } from '#domain/fault.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import type { QueryTask } from '../reads/answer-query.ts'
import { askQuery } from '../reads/queries.ts'
import { askWrite, type WriteQueueRef } from './ask-write.ts'
import type { JournalFilter } from './transactions.ts'

export function makeJournal(
  writeQueue: WriteQueueRef,
  reads: { run(task: QueryTask<'journalOf'>): Promise<unknown> },
) {
  return {
    load: (filter: JournalFilter) => askQuery(reads, 'journalOf', filter),
    async save(row: TransactionRow): Promise<void> {
      if (await askWrite(writeQueue, 'saveTransaction', { row })) return
      throw new Fault(
        'JOURNAL_CONFLICT',
        `another process sends transactions with the key of ${row.sender}: each process needs ` +
          'its own key',
        {
          retryable: true,
        },
      )
    },
  }
}
