/** For each named database query, the types of its request and its answer, for the routes that run it. */

import type { Queries, QueryName } from '#store/reads/answer-query.ts'

export type QueryOf<Name extends QueryName> = Queries[Name]['takes']
export type AnswerTo<Name extends QueryName> = Queries[Name]['answers']
