/**
 * Past books and archive files: `GET /api/v1/orderbook/{marketId}` with `seq` or `at`, and `GET
 * /api/v1/archive/{marketId}/{day}`. A separate thread reads them from the public log.
 */

import Type from 'typebox'
import type { MarketId } from '#domain/ids.ts'
import { ARCHIVE_BYTES_MAX, HISTORY_PER_ADDRESS_MAX, WAITING_SITE_TIMES } from '#domain/limits.ts'
import type { Outcome } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { makeRangeCounts } from '#http/range-counts.ts'
import { type AnswerRoute, type RawReply, route } from '#http/route.ts'
import { safeInteger } from '#http/schemas.ts'
import type { MarketBoard } from '#live/market-board.ts'
import { marketIdParam } from '../orders/order-shapes.ts'

/** Cost of a past book in reads: the history thread reads up to one segment of the public log for the book. */
export const PAST_BOOK_WEIGHT = 50
/** Cost of an archive file in reads: the history thread reads several segments and compresses 4 MiB of lines. */
const ARCHIVE_WEIGHT = 250
const ARCHIVE_DEADLINE_MS = 10_000
const DAY_MS = 86_400_000
const GZIP = 'application/gzip'

/** Selects the last event that a past book includes, by sequence number or by time. */
type BookMoment = { readonly seq: number } | { readonly atMs: number }

export type PastBookAsk = {
  readonly marketId: MarketId
  readonly partition: number
  readonly until: BookMoment
  /** The outcome whose book is read; if undefined, both outcomes are merged by price. */
  readonly outcome?: Outcome | undefined
}

/**
 * `unknown`: the log has no such market. `before`: the log begins after the requested moment. `behind`: the index of
 * the log is not complete yet.
 */
type Missing = { readonly state: 'unknown' | 'before' | 'behind' }

export type PastBookRead =
  | Missing
  | {
      readonly state: 'found'
      readonly seq: number
      /** True if the published log has no event of the market after this book. */
      readonly isNewest: boolean
      readonly json: string
    }

export type ArchiveAsk = {
  readonly marketId: MarketId
  readonly partition: number
  readonly fromMs: number
  readonly toMs: number
  readonly afterSeq: number
}

export type ArchivePart =
  | { readonly state: 'behind' | 'empty' }
  | {
      readonly state: 'found'
      /** Events, one per line, compressed by gzip. */
      readonly file: Uint8Array
      readonly sha256: string
      readonly events: number
      readonly lastSeq: number
      readonly hasMore: boolean
    }

export type History = {
  pastBook(ask: Omit<PastBookAsk, 'partition'>): Promise<PastBookRead>
  archivePart(ask: Omit<ArchiveAsk, 'partition'>): Promise<ArchivePart>
}

const NO_HISTORY = reject(
  'NOT_FOUND',
  undefined,
  'past books and archive files are not available, because this exchange does not publish its log',
)
const BEHIND: Rejection = {
  ...reject(
    'OVERLOADED',
    undefined,
    'the past books and archive files of this market are still being prepared: retry shortly',
  ),
  retryAfterSec: 5,
}

const TOO_MANY: Rejection = {
  ...reject(
    'RATE_LIMITED',
    undefined,
    `an IP address can request at most ${HISTORY_PER_ADDRESS_MAX} past books and archive files at a time: wait ` +
      'for an answer',
  ),
  retryAfterSec: 1,
}

/** Counts the history requests in progress for each range of IP addresses, to limit them per range. */
const underWay = makeRangeCounts({
  perRangeMax: HISTORY_PER_ADDRESS_MAX,
  siteTimes: WAITING_SITE_TIMES,
})

/**
 * Runs a history job, or rejects it if the client's range of IP addresses already has the maximum number of jobs. The
 * limit keeps the one history thread available for all clients.
 */
async function sharing<Answer>(
  ip: string,
  run: () => Promise<Answer>,
): Promise<Answer | Rejection> {
  if (underWay.isFull(ip)) return TOO_MANY
  underWay.add(ip, 1)
  try {
    return await run()
  } finally {
    underWay.add(ip, -1)
  }
}

/** Answers with a past book; `history` is undefined if the log is not public. */
export async function pastBook(
  ports: {
    readonly history: History | undefined
    readonly board: MarketBoard
    readonly ip: string
  },
  ask: Omit<PastBookAsk, 'partition'>,
): Promise<RawReply | Rejection> {
  const { history, board, ip } = ports
  if (history === undefined) return NO_HISTORY
  const { marketId, until, outcome } = ask
  const shown = board.markets.get(marketId)
  const read = await sharing(ip, () => history.pastBook(ask))
  if (isRejection(read)) return read
  switch (read.state) {
    case 'behind':
      return BEHIND
    case 'before':
      return reject(
        'NOT_FOUND',
        undefined,
        'the public log has no complete book of this market at the requested moment: the market ' +
          'was opened later, or the log begins later',
      )
    case 'unknown':
      return shown === undefined ? reject('MARKET_NOT_FOUND') : reject('SEQ_NOT_REACHED')
    default:
  }
  const { seq, isNewest, json } = read
  if ('seq' in until && seq < until.seq) {
    if (shown !== undefined && shown.seq >= until.seq) return reject('SEQ_NOT_REACHED')
    const newest = Math.max(seq, shown?.seq ?? 0)
    return reject(
      'INVALID_FIELD',
      'seq',
      `seq must be at most ${newest}, the newest sequence number of the market`,
    )
  }
  // The public log does not have the newest events of this market yet. One of these events may be from before the
  // requested time. The book would then lack it, so the request is rejected.
  if ('atMs' in until && isNewest && shown !== undefined && seq < shown.seq) {
    return reject('SEQ_NOT_REACHED')
  }
  return { status: 200, raw: json, headers: { etag: `W/"past-${seq}-${outcome ?? ''}"` } }
}

export function archive(history: History | undefined): AnswerRoute {
  return route({
    method: 'GET',
    path: '/api/v1/archive/{marketId}/{day}',
    operationId: 'getArchive',
    ...{ auth: 'public', cost: 'read', weight: ARCHIVE_WEIGHT, tag: 'markets' },
    summary: 'Download the events of a market on a day',
    description:
      'The answer is a gzip file with the events of the market on that UTC day, one JSON object ' +
      'per line. docs/transparency.md describes the objects. A day can have several files, each ' +
      `with at most ${ARCHIVE_BYTES_MAX / 1024 / 1024} MiB of uncompressed lines. If the day has ` +
      'a further file, the answer has the header `sibyl-next`: a request with the value of this ' +
      'header as `after` returns the further file. All files of a day, appended to each other, ' +
      'are one valid gzip file. The header `repr-digest` has the SHA-256 of the file. The ' +
      'request fails with `NOT_FOUND` if the exchange does not publish its log.',
    cacheControl: 'public, max-age=60',
    revalidates: true,
    deadlineMs: ARCHIVE_DEADLINE_MS,
    readsIp: true,
    produces: GZIP,
    params: Type.Object(
      {
        marketId: marketIdParam(),
        day: Type.String({
          pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$',
          description: 'A UTC day, such as `2026-11-18`',
          examples: ['2026-11-18'],
        }),
      },
      { additionalProperties: false },
    ),
    query: Type.Object(
      {
        after: Type.Optional(
          safeInteger({
            description:
              'Sequence number of an event; the file has only later events. To request the next file, send ' +
              'the value of the header `sibyl-next` of the previous file',
          }),
        ),
      },
      { additionalProperties: false },
    ),
    responses: { 200: Type.String({ description: 'The answer is a gzip file.' }) },
    errors: ['NOT_FOUND', 'INVALID_FIELD'],
    async handle({ path: { marketId, day }, query, ip }) {
      if (history === undefined) return NO_HISTORY
      const fromMs = Date.parse(`${day}T00:00:00Z`)
      // `Date.parse` reads 30 February as 2 March, so the parsed date is compared with the given one.
      if (Number.isNaN(fromMs) || !new Date(fromMs).toISOString().startsWith(day)) {
        return reject('INVALID_FIELD', 'day', 'day must be an existing day, such as 2026-11-18')
      }
      const afterSeq = query.after ?? 0
      const ask = { marketId, fromMs, toMs: fromMs + DAY_MS, afterSeq }
      const part = await sharing(ip, () => history.archivePart(ask))
      if (isRejection(part)) return part
      if (part.state === 'behind') return BEHIND
      if (part.state !== 'found') {
        return reject(
          'NOT_FOUND',
          undefined,
          'the market has no events on this day, or no event with a sequence number above the parameter after',
        )
      }
      return archiveReply(`${marketId}-${day}-${afterSeq}.jsonl.gz`, part)
    },
  })
}

function archiveReply(
  name: string,
  part: Extract<ArchivePart, { readonly state: 'found' }>,
): RawReply {
  const { file, sha256, events, lastSeq, hasMore } = part
  return {
    status: 200,
    raw: file,
    contentType: GZIP,
    headers: {
      etag: `"${sha256}"`,
      'repr-digest': `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`,
      'content-disposition': `attachment; filename="${name}"`,
      'sibyl-events': String(events),
      ...(hasMore ? { 'sibyl-next': String(lastSeq) } : {}),
    },
  }
}
