/**
 * What goes with a request on its way, from the route that heard it to the thread that acts on it.
 * A route's request is one; a caller without a route makes its own.
 */

import type { WriteStages } from './write-stages.ts'

export type RequestContext = {
  /** Unix milliseconds; after it no caller waits for an answer. */
  readonly deadlineAtMs: number
  /** Names the request in the logs of every thread on its way. */
  readonly requestId?: string | undefined
  /** Where the time of its stages is noted, if that is of interest. */
  readonly stages?: WriteStages | undefined
}
