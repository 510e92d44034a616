/** `sibyl log`: verifies the public log of an exchange, and checks proofs and receipts. */

import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { CommandError, OptionError, readInteger } from '#devnet/command.ts'
import { parseTradeId } from '#domain/ids.ts'
import { type Checkpoint, parseCheckpoint } from '#transparency/checkpoint.ts'
import { findsMatch, findsOrder } from '#transparency/find-event.ts'
import { parseInclusionText, verifyInclusionText } from '#transparency/inclusion-text.ts'
import {
  keyFor,
  parseNote,
  parseVerifierKey,
  type VerifierKey,
  verifierKeyText,
} from '#transparency/note.ts'
import { eventsIn, makeEventReader, readEntry } from '#transparency/public-event.ts'
import { openReceipt, type Receipt, receiptOrigin } from '#transparency/receipt.ts'
import { proveConsistency, readCheckpoint, verifyEntries } from '#transparency/remote-log.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import { command, READ_OPTIONS } from '../command.ts'
import { urlOf } from '../connect.ts'
import { type NamedLog, namedLogs } from '../public-logs.ts'
import { showJson } from '../show.ts'
import { originFile, writeDurably } from '../witness/witness-folder.ts'

const SECONDS_MAX = 86_400

const KEY_OPTION = {
  value: '<keys>',
  help: 'verifier keys that you trust, separated by commas; by default those of the exchange',
} as const

export const logVerify = command({
  name: 'log verify',
  takes: '',
  about: 'downloads the public log of an exchange and verifies checkpoints, tiles and entries',
  more:
    'With --keep it remembers the newest checkpoint of each log in a folder, and reports a log that was rewritten since.\n' +
    'With --follow it continues until it is stopped. It exits with 1 if anything is wrong.',
  options: {
    key: KEY_OPTION,
    keep: { value: '<folder>', help: 'folder in which checkpoints are stored' },
    follow: {
      value: '<seconds>',
      help: 'repeats the verification after this many seconds, until the command is stopped',
    },
    ...READ_OPTIONS,
  },
  async run({ values, io }) {
    const everySec =
      values.follow === undefined ? undefined : readInteger('follow', values.follow, 1, SECONDS_MAX)
    if (values.keep !== undefined) mkdirSync(values.keep, { recursive: true })
    const followed = new Map<string, Followed>()
    for (;;) {
      const logs = await namedLogs(urlOf(values, io), values.key)
      requireAll(logs, [...followed.keys(), ...keptIn(values.keep).map(({ head }) => head.origin)])
      for (const log of logs) {
        const size = await verifyLog(log, followed, values.keep)
        const line = { origin: log.origin, size, verified: true }
        io.out(values.json ? showJson(line) : `ok  ${log.origin}  ${size} entries\n`)
      }
      if (everySec === undefined || io.signal.aborted) return 0
      await pause(everySec * 1_000, undefined, { signal: io.signal }).catch(() => {})
      if (io.signal.aborted) return 0
    }
  },
})

/** Returns the checkpoints stored in a folder. */
function keptIn(folder: string | undefined): Checkpoint[] {
  if (folder === undefined) return []
  const names = readdirSync(folder).filter((name) => name.endsWith('.checkpoint'))
  return names.map((name) => {
    const checkpoint = parseCheckpoint(readFileSync(join(folder, name), 'utf8'))
    if (checkpoint !== undefined) return checkpoint
    throw new CommandError(
      `the checkpoint ${join(folder, name)} is damaged, so a rewritten log cannot be detected: ` +
        'restore this file from a copy',
    )
  })
}

/**
 * Throws if the exchange no longer lists a log that was verified before. Otherwise an exchange could rewrite a log, and
 * hide the change by no longer listing the log.
 */
function requireAll(logs: readonly NamedLog[], origins: readonly string[]): void {
  const missing = origins.find((origin) => !logs.some((log) => log.origin === origin))
  if (missing === undefined) return
  throw new CommandError(
    `the exchange no longer publishes the log ${missing}, which was verified before`,
  )
}

/**
 * State of a log's verification between two rounds: the hash tree of the verified entries, and the reader of their
 * events.
 */
type Followed = { readonly builder: TreeBuilder; readonly read: (entry: Uint8Array) => unknown }

async function verifyLog(
  log: NamedLog,
  followed: Map<string, Followed>,
  folder: string | undefined,
): Promise<number> {
  const { origin } = log
  const { builder, read } = followed.get(origin) ?? {
    builder: new TreeBuilder(treeHasher),
    read: makeEventReader(),
  }
  followed.set(origin, { builder, read })
  const checkpoint = await readCheckpoint(log)
  const { size } = checkpoint.head
  const kept = folder === undefined ? undefined : join(folder, originFile(origin))
  const before = kept !== undefined && existsSync(kept) ? readFileSync(kept, 'utf8') : undefined
  const older = before === undefined ? undefined : parseCheckpoint(before)
  const seen = Math.max(builder.size, older?.head.size ?? 0)
  if (size < seen) {
    throw new CommandError(
      `${origin} has ${size} entries, fewer than the ${seen} that were verified before: a log ` +
        'must not become shorter',
    )
  }
  if (older !== undefined) await proveConsistency(log, older, checkpoint)
  await verifyEntries(log, checkpoint, builder, read)
  if (kept !== undefined) writeDurably(kept, checkpoint.text)
  return size
}

export const logProof = command({
  name: 'log proof',
  takes: '<order|trade|file>',
  about: 'checks the offline proof of an order or a trade; a saved proof needs no server',
  more: 'To save a proof in a file, use --save. A saved proof is checked only with the keys that --key gives.',
  options: {
    key: KEY_OPTION,
    witness: {
      value: '<keys>',
      help: 'verifier keys of witnesses that must have cosigned the checkpoint, separated by commas',
    },
    save: { value: '<path>', help: 'keeps the proof in a file' },
    ...READ_OPTIONS,
  },
  async run({ values, positionals: [named = ''], io }) {
    const isFile = existsSync(named)
    const text = isFile ? readFileSync(named, 'utf8') : await fetchProof(urlOf(values, io), named)
    const opened = parseCheckpoint(parseInclusionText(text)?.checkpoint ?? '')
    const origin = opened?.head.origin
    const keys =
      isFile || values.key !== undefined
        ? keysOf('key', values.key)
        : (await namedLogs(urlOf(values, io), undefined)).map(({ key }) => key)
    const key = keyFor(opened?.note, origin, keys)
    if (key === undefined)
      throw new CommandError(
        `no trusted key belongs to ${origin ?? 'this proof'}: give its verifier key with --key`,
      )
    const witnesses = keysOf('witness', values.witness)
    const { entry, index, head, cosigners } = verifyInclusionText(text, key, witnesses)
    for (const { name } of witnesses) {
      if (!cosigners.includes(name))
        throw new CommandError(`the proof has no cosignature of ${name}`)
    }
    if (!isFile && !finds(named)(entry)) {
      throw new CommandError(
        'the proof is for another entry, which does not contain this order or trade',
      )
    }
    if (values.save !== undefined) writeDurably(values.save, text)
    const facts = { origin: head.origin, index, size: head.size, cosigners }
    if (values.json) io.out(showJson({ ...facts, entry: Buffer.from(entry).toString() }, 2))
    else {
      io.out(`ok  entry ${index} of ${head.size} of ${head.origin}\n`)
      io.out(Buffer.from(entry).toString())
    }
    return 0
  },
})

export const logReceipt = command({
  name: 'log receipt',
  takes: '<file>',
  about:
    'checks that a receipt is signed, and that the public log contains what the receipt promises',
  more:
    'It exits with 1 if the receipt is not signed by the key of the log, or the log does not have the order. For a cancel\n' +
    'it verifies the whole log, because a proof of the order does not show that it was cancelled.',
  options: { key: KEY_OPTION, ...READ_OPTIONS },
  async run({ values, positionals: [file = ''], io }) {
    const text = readFileSync(file, 'utf8')
    const origin = receiptOrigin(text)
    const url = urlOf(values, io)
    const keys =
      values.key === undefined
        ? (await namedLogs(url, undefined)).map(({ key }) => key)
        : keysOf('key', values.key)
    const key = keyFor(parseNote(text), origin, keys)
    if (key === undefined)
      throw new CommandError(
        `no trusted key belongs to ${origin ?? 'this receipt'}: give its verifier key with --key`,
      )
    const receipt = openReceipt(text, key)
    const index =
      receipt.status === 'accepted'
        ? await acceptedAt(url, receipt, keys)
        : await cancelledAt(url, receipt, values.key)
    io.out(
      values.json
        ? showJson({ ...receipt, index }, 2)
        : `ok  ${receipt.status} ${receipt.orderHash}, entry ${index} of ${receipt.origin}\n`,
    )
    return 0
  },
})

/** Fetches and verifies an order's proof; returns the index of the entry that contains the order. */
async function acceptedAt(
  url: string,
  { orderHash, origin, marketId, seq }: Receipt,
  keys: readonly VerifierKey[],
): Promise<number> {
  const proof = await fetchProof(url, orderHash)
  const { note } = parseCheckpoint(parseInclusionText(proof)?.checkpoint ?? '') ?? {}
  const key = keyFor(note, origin, keys)
  if (key === undefined) throw new CommandError(`no trusted key belongs to ${origin}`)
  const { entry, index } = verifyInclusionText(proof, key)
  if (!findsOrder(orderHash)(entry)) {
    throw new CommandError(
      'the exchange sent the proof of another entry, which does not contain the order',
    )
  }
  const { head, lines } = readEntry(entry)
  // A long match is split into pieces over several entries. Such an entry contains no whole event, so there is no
  // market and sequence number to compare.
  const events = head.pieces === undefined ? eventsIn(lines, head.first) : []
  const isLate = events.every((each) => each.marketId !== marketId || each.seq > seq)
  if (events.length > 0 && isLate) {
    throw new CommandError(
      `the receipt promises that the log has the order at or before event ${seq} of the market, but the log has it later`,
    )
  }
  return index
}

/** Verifies the whole log; returns the index of the entry that cancelled the order. */
async function cancelledAt(
  url: string,
  { orderHash, origin, marketId, seq }: Receipt,
  trusted: string | undefined,
): Promise<number> {
  const log = (await namedLogs(url, trusted)).find((each) => each.origin === origin)
  if (log === undefined) throw new CommandError(`the exchange does not list the log ${origin}`)
  const read = makeEventReader()
  let found: number | undefined
  await verifyEntries(log, await readCheckpoint(log), new TreeBuilder(treeHasher), (entry, at) => {
    for (const event of read(entry)) {
      const isCancel = event.type === 'OrderClosed' && event.reason === 'cancelled'
      if (!isCancel || event.orderHash !== orderHash) continue
      if (event.marketId === marketId && event.seq <= seq) found = at
    }
  })
  if (found !== undefined) return found
  throw new CommandError(
    `the public log does not contain the promised cancellation of order ${orderHash}`,
  )
}

/** Returns a function that checks whether an entry contains the given order or trade. */
function finds(named: string): (entry: Uint8Array) => boolean {
  const trade = parseTradeId(named)
  if (trade === undefined) return findsOrder(named)
  return findsMatch(trade.marketId, trade.sequence, trade.fillIndex)
}

async function fetchProof(url: string, named: string): Promise<string> {
  const kind = /^0x[0-9a-f]{64}$/.test(named) ? 'orders' : 'trades'
  const response = await fetch(`${url}/api/v1/${kind}/${encodeURIComponent(named)}/proof`)
  if (response.ok) return response.text()
  if (response.status === 404)
    throw new CommandError(`the public log does not contain the order or trade '${named}'`)
  throw new CommandError(`the request for the proof failed: HTTP status ${response.status}`)
}

/** Reads verifier keys, separated by commas. */
function keysOf(name: string, text: string | undefined): VerifierKey[] {
  return (text ?? '')
    .split(',')
    .filter((each) => each !== '')
    .map((each) => {
      const key = parseVerifierKey(each)
      if (key !== undefined && verifierKeyText(key) === each) return key
      throw new OptionError(`--${name}: '${each.slice(0, 60)}' is not a verifier key (name+id+key)`)
    })
}
