/** An outcome in a query: by its word or its code. */

import { NO, type Outcome, YES } from '#domain/order.ts'
import { oneOf } from '#http/schemas.ts'

export const OUTCOME_OF: Record<'YES' | 'NO' | '0' | '1', Outcome> = { YES, NO, 0: YES, 1: NO }

export function outcomeParam(description: string) {
  return oneOf(['YES', 'NO', '0', '1'], { description })
}
