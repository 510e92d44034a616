/** An outcome in a query: a word (`YES`, `NO`) or a code (`0`, `1`). */

import { NO, type Outcome, YES } from '#domain/order.ts'
import { oneOf } from '#http/schemas.ts'

export const OUTCOME_OF: Record<'YES' | 'NO' | '0' | '1', Outcome> = { YES, NO, 0: YES, 1: NO }

export function outcomeParam(description: string) {
  return oneOf(['YES', 'NO', '0', '1'], { description })
}
