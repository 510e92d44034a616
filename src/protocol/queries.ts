/** Defines the types of the request and the answer of each named database query, for the routes that run the query. */

import type { Queries, QueryName } from '#store/reads/answer-query.ts'

export type QueryOf<Name extends QueryName> = Queries[Name]['takes']
export type AnswerTo<Name extends QueryName> = Queries[Name]['answers']
