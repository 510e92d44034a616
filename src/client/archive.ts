/** The archive of an exchange: files with the events of a market on a day, each checked against its SHA-256. */

import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import type { PublicEvent } from '#transparency/public-event-shapes.ts'
import { pageNames } from './pages.ts'
import { SibylError } from './sibyl-error.ts'
import type { CallOptions, FileAnswer, Transport } from './transport.ts'

export type ArchiveFile = {
  /** Content of the file, compressed by gzip, one JSON object per line. Concatenated files are a valid gzip file. */
  readonly file: Uint8Array<ArrayBuffer>
  readonly sha256: string
  readonly events: number
}

export type ClientArchive = {
  /** Iterates over the files of a UTC day, such as `2026-11-18`; a busy day has several. */
  files(
    marketId: string,
    day: string,
    options?: CallOptions,
  ): AsyncGenerator<ArchiveFile, void, undefined>
  /** Iterates over the events of a UTC day, oldest first. */
  events(
    marketId: string,
    day: string,
    options?: CallOptions,
  ): AsyncGenerator<PublicEvent, void, undefined>
}

export function createArchive(send: Transport): ClientArchive {
  async function* files(
    marketId: string,
    day: string,
    call?: CallOptions,
  ): AsyncGenerator<ArchiveFile, void, undefined> {
    const path = `/api/v1/archive/${encodeURIComponent(marketId)}/${encodeURIComponent(day)}`
    let after: string | undefined
    const named = pageNames()
    do {
      const request = { method: 'GET', path, query: { after }, answers: 'file' } as const
      const { bytes, headers } = await send<FileAnswer>(request, call)
      const digest = bytesToHex(sha256(bytes))
      if (headers.get('etag') !== `"${digest}"`) {
        throw new SibylError(
          'UNEXPECTED_ANSWER',
          `GET ${path}: the file is damaged, because its SHA-256 differs from the header etag`,
          {},
        )
      }
      yield { file: bytes, sha256: digest, events: Number(headers.get('sibyl-events')) }
      after = named(headers.get('sibyl-next'))
    } while (after !== undefined)
  }

  return {
    files,
    async *events(marketId, day, call) {
      for await (const { file } of files(marketId, day, call)) {
        const lines = new Blob([file]).stream().pipeThrough(new DecompressionStream('gzip'))
        const text = await textOf(lines)
        for (const line of text.split('\n')) {
          if (line !== '') yield JSON.parse(line) as PublicEvent
        }
      }
    },
  }
}

/**
 * Maximum decompressed size in characters. A file has at most 4 MiB of lines plus one long event. Without a limit, a
 * gzip file of a few megabytes could decompress to gigabytes.
 */
const FILE_CHARS_MAX = 16 * 1024 * 1024

async function textOf(bytes: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  const decoder = new TextDecoder()
  // Use a reader, because some browsers cannot iterate over a stream.
  const reader = bytes.getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text
    text += decoder.decode(value, { stream: true })
    if (text.length <= FILE_CHARS_MAX) continue
    await reader.cancel().catch(() => {})
    throw new SibylError(
      'UNEXPECTED_ANSWER',
      `a file of the archive has more than ${FILE_CHARS_MAX} characters, which is the maximum`,
    )
  }
}
