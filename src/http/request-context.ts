/**
 * Context of a request on its way from the route to the thread that executes it. A route passes its request as the
 * context. A caller without a route creates a context.
 */

import type { WriteStages } from './write-stages.ts'

export type RequestContext = {
  /** Deadline in Unix milliseconds; after this time the caller no longer waits for an answer. */
  readonly deadlineAtMs: number
  /** Identifies the request in the logs of every thread on its way. */
  readonly requestId?: string | undefined
  /** Collects the times of the request's stages, if they are measured. */
  readonly stages?: WriteStages | undefined
}
