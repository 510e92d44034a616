/** Requests to the named queries of the database, and their answers, for the routes that show them. */

import type { Queries, QueryName } from '#store/reads/answer-query.ts'

export type QueryOf<Name extends QueryName> = Queries[Name]['takes']
export type AnswerTo<Name extends QueryName> = Queries[Name]['answers']
