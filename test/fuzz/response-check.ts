/** Reads the bytes that a front has sent, and reports malformed parts. */

export type Verdict = {
  /** Answers that are whole. */
  readonly complete: number
  readonly faults: readonly string[]
  /** Statuses of the answers. A status that the HTTP library itself sent is marked `of the library`. */
  readonly seen: readonly string[]
}

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) [ -~]+$/
const HEADER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\t -~\x80-\xff]*)$/
const BODILESS = new Set([101, 204, 304])
/** Streams have no length; they end when the client leaves. */
const STREAM = 'text/event-stream'

export function faultsOf(
  bytes: Buffer,
  { ended, isHead }: { readonly ended: boolean; readonly isHead: boolean },
): Verdict {
  const faults: string[] = []
  const seen: string[] = []
  let text = bytes.toString('latin1')
  while (text !== '') {
    const end = text.indexOf('\r\n\r\n')
    if (end < 0) {
      if (ended) faults.push('an answer ends within its head')
      break
    }
    const [first = '', ...lines] = text.slice(0, end).split('\r\n')
    const status = Number(STATUS_LINE.exec(first)?.[1])
    if (Number.isNaN(status)) {
      faults.push(`no status line: ${first.slice(0, 80)}`)
      break
    }
    const headers = new Map<string, string>()
    for (const line of lines) {
      const [, name = '', value = ''] = HEADER_LINE.exec(line) ?? []
      if (name === '') faults.push(`no header: ${line.slice(0, 80)}`)
      headers.set(name.toLowerCase(), value)
    }
    const rest = text.slice(end + 4)
    if (status === 101 || headers.get('content-type') === STREAM) {
      seen.push(String(status))
      break
    }
    const ours = headers.has('x-request-id')
    const length = headers.get('content-length')
    if (!ours && length === undefined && headers.get('connection') === 'close') {
      // The HTTP library sent this answer without a length. It ends when the connection closes.
      seen.push(`${status} of the library`)
      faults.push(...contentFaults(status, ours, headers, rest))
      break
    }
    const bytesDue = isHead || BODILESS.has(status) ? 0 : Number(length)
    if (Number.isNaN(bytesDue)) {
      faults.push(`no length: ${first}`)
      break
    }
    if (rest.length < bytesDue) {
      if (ended) faults.push(`an answer of ${bytesDue} bytes ends after ${rest.length}`)
      break
    }
    seen.push(ours ? String(status) : `${status} of the library`)
    faults.push(...contentFaults(status, ours, headers, rest.slice(0, bytesDue)))
    text = rest.slice(bytesDue)
  }
  return { complete: seen.length, faults, seen }
}

function contentFaults(
  status: number,
  ours: boolean,
  headers: ReadonlyMap<string, string>,
  body: string,
): string[] {
  const faults: string[] = []
  // The HTTP library itself answers requests that it cannot parse. Its status 505 for an unknown HTTP version is not a
  // fault.
  if (status >= 500 && status !== 503 && (ours || status !== 505)) faults.push(`status ${status}`)
  if (!ours) return faults
  if (headers.get('x-content-type-options') !== 'nosniff') faults.push('no nosniff')
  if (headers.has('server') || headers.has('uwebsockets')) faults.push('a banner')
  if (body === '' || !headers.get('content-type')?.startsWith('application/json')) return faults
  try {
    const value = JSON.parse(Buffer.from(body, 'latin1').toString('utf8')) as Record<
      string,
      unknown
    >
    const isError = typeof value.error === 'string' && typeof value.code === 'string'
    if (status >= 400 && !isError && !('checks' in value))
      faults.push(`status ${status} without code`)
  } catch {
    faults.push('a body that is no JSON')
  }
  return faults
}
