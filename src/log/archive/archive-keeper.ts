/**
 * Archives the events of a partition before they are deleted from the log. Before each truncation, this class returns
 * the offset below which events may be deleted. Another thread then archives further events, so that the next
 * truncation can delete them. If archiving fails, it is retried, and events that are not archived stay in the log.
 */

import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Fault } from '#domain/fault.ts'
import type { RowHome } from '../partition/record.ts'
import type { FileState } from '../partition/schema.ts'
import { DRAFT, partitionArchive, readSegmentMeta, segmentsIn } from './archive-format.ts'
import type { ArchiveJob, Segment } from './archive-writer.ts'

/** Location and size of segments. */
export type ArchiveOptions = {
  readonly dir: string
  /** Maximum size of the whole archive in bytes; 0 means unlimited. */
  readonly bytesMax: number
  /**
   * A segment is written when at least `segmentEventsMin` events wait to be archived, or when events have waited for
   * `segmentWaitMs`.
   */
  readonly segmentEventsMin?: number
  readonly segmentWaitMs?: number
  /** Approximate maximum of uncompressed bytes per segment. */
  readonly segmentBytes?: number
  /**
   * Returns true if the disk is nearly full. In that case no further events are archived, and events that are not
   * archived stay in the log.
   */
  readonly isFull?: () => boolean
}

const SEGMENT_EVENTS_MIN = 20_000
/** Maximum wait before a small segment is written: a partition with few events writes at most four segments a day. */
const SEGMENT_WAIT_MS = 6 * 3_600_000
const SEGMENT_BYTES = 32 * 1024 * 1024

type KeeperPorts = {
  readonly home: RowHome
  readonly database: string
  /** Writes a segment in another thread. */
  readonly write: (job: ArchiveJob) => Promise<Segment | undefined>
}

type Job = { result?: { readonly segment: Segment | undefined } | { readonly failed: unknown } }

export class ArchiveKeeper {
  readonly #ports: KeeperPorts
  readonly #options: Required<ArchiveOptions>
  readonly #folder: string
  /** Last offset in the archive. */
  #last = 0
  #trouble: Fault | undefined
  #job: Job | undefined
  #waitingSinceMs = performance.now()
  #saidGap = false

  constructor(ports: KeeperPorts, options: ArchiveOptions) {
    this.#ports = ports
    this.#options = {
      segmentEventsMin: SEGMENT_EVENTS_MIN,
      segmentWaitMs: SEGMENT_WAIT_MS,
      segmentBytes: SEGMENT_BYTES,
      isFull: () => false,
      ...options,
    }
    this.#folder = partitionArchive(options.dir, ports.home)
    mkdirSync(this.#folder, { recursive: true })
    for (const name of readdirSync(this.#folder)) {
      if (name.endsWith(DRAFT)) rmSync(join(this.#folder, name), { force: true })
    }
    this.#look()
  }

  /**
   * Finds the last archived offset. If the newest segment is damaged, keeps the fault, which `reach` throws. Markets
   * then continue, but no events leave the log.
   */
  #look(): void {
    const newest = segmentsIn(this.#folder).at(-1)
    this.#trouble = undefined
    this.#last = 0
    try {
      if (newest !== undefined) readSegmentMeta(newest, this.#ports.home)
      this.#last = newest?.last ?? 0
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      this.#trouble = new Fault('LOG_ARCHIVE_FAILED', error.message, {
        retryable: true,
        cause: error,
      })
    }
  }

  /**
   * Offset of the last archived event. Archived events were durable, so a log that ends before this offset has lost
   * acknowledged commands.
   */
  get lastOffset(): number {
    return this.#last
  }

  /**
   * Returns the offset below which the log may be truncated: `below`, or the offset after the last archived event if
   * that offset is lower. Starts archiving if enough events wait.
   */
  reach(below: number, { firstOffset }: FileState): number {
    if (this.#trouble !== undefined) this.#look()
    if (this.#trouble !== undefined) throw this.#trouble
    if (this.#job?.result !== undefined) this.#finish(this.#job.result)
    if (this.#last < firstOffset - 1) this.#skipTo(firstOffset)
    const events = below - 1 - this.#last
    if (events <= 0) this.#waitingSinceMs = performance.now()
    else if (this.#job === undefined && this.#isWorthIt(events)) this.#begin(below)
    return Math.min(below, this.#last + 1)
  }

  #isWorthIt(events: number): boolean {
    const { segmentEventsMin, segmentWaitMs, isFull } = this.#options
    if (isFull()) return false
    return events >= segmentEventsMin || performance.now() - this.#waitingSinceMs >= segmentWaitMs
  }

  /**
   * Continues the archive after events that left the log without being archived. The first call throws, to report this
   * gap.
   */
  #skipTo(firstOffset: number): void {
    const from = this.#last + 1
    this.#last = firstOffset - 1
    if (this.#saidGap) return
    this.#saidGap = true
    throw new Fault(
      'LOG_ARCHIVE_FAILED',
      `${this.#folder}: offsets ${from} to ${firstOffset - 1} have left the log and are not in ` +
        'the archive; npm run rebuild works only with a copy of the database that contains these ' +
        'offsets',
      { retryable: true },
    )
  }

  #begin(below: number): void {
    const { home, database, write } = this.#ports
    const { bytesMax, segmentBytes } = this.#options
    const job: Job = {}
    this.#job = job
    const folder = this.#folder
    const from = this.#last + 1
    const whole = dirname(folder)
    write({ folder, whole, bytesMax, home, database, from, below, segmentBytes }).then(
      (segment) => {
        job.result = { segment }
      },
      (error) => {
        job.result = { failed: error }
      },
    )
  }

  #finish(result: NonNullable<Job['result']>): void {
    this.#job = undefined
    this.#waitingSinceMs = performance.now()
    if ('failed' in result) throw archiveFault(result.failed)
    if (result.segment !== undefined) this.#last = result.segment.last
  }
}

/**
 * Returns the fault of a failed archiving job. A retryable fault gets the code `LOG_ARCHIVE_FAILED`. Its own code may
 * be wrong: if the background thread ends, every unfinished job gets `LOG_MERGE_FAILED`.
 */
function archiveFault(error: unknown): unknown {
  if (!(error instanceof Fault) || !error.retryable) return error
  return new Fault('LOG_ARCHIVE_FAILED', error.message, { retryable: true, cause: error })
}
