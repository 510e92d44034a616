/**
 * Calls the named queries. The table in `answer-query.ts` defines their names, parameters and answers. Queries, answers
 * and faults pass between threads as plain data. So a thread that calls these functions loads no database code.
 */

import { answerOf, type StoreReply } from '../engine/reply.ts'
import type { Queries, QueryName, QueryTask } from './answer-query.ts'

/** Runs a named query. */
export type Query = <Name extends QueryName>(
  name: Name,
  args: Queries[Name]['takes'],
) => Promise<Queries[Name]['answers']>

/**
 * Runs a query in `pool`, which is the pool of query threads or any other object that answers queries. Throws the fault
 * that `pool` returned.
 */
export async function askQuery<Name extends QueryName>(
  pool: { run(task: QueryTask<NoInfer<Name>>): Promise<unknown> },
  query: Name,
  args: Queries[Name]['takes'],
): Promise<Queries[Name]['answers']> {
  return answerOf((await pool.run({ query, args })) as StoreReply) as Queries[Name]['answers']
}

/** Queries that scan much of the history of a user or a market. */
const LONG: ReadonlySet<QueryName> = new Set(['tradesOfUser', 'payoutsOfUser', 'candles'] as const)

/**
 * Returns whether a read takes long. The queries in `LONG`, and all pages after the first, take long because they scan
 * history. A search takes long because it reads the texts of all markets (0.1 s with 100,000 markets).
 */
export function isLongRead(name: QueryName, args: object): boolean {
  if (LONG.has(name)) return true
  const { before, beforeSec, search } = args as Record<string, unknown>
  return before !== undefined || beforeSec !== undefined || search !== undefined
}
