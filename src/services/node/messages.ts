/**
 * Messages between nodes, except frames, as JSON. Any client of the same NATS server can publish on the nodes'
 * subjects, and an exception in a handler ends the connection. So this file detects invalid messages and drops them.
 */

import type { Beat } from './directory.ts'

/** Request of a thread for a link to a thread of another node. */
export type Opening = {
  /** Name of the link in hex. */
  readonly link: string
  readonly node: string
  readonly incarnation: string
  /** The requesting thread, the requested thread, and the incarnation of the node that runs the requested thread. */
  readonly thread: string
  readonly peer: string
  readonly peerIncarnation: string
}

type Said = { readonly incarnation: string; readonly message: object }

/** Pattern of valid node names. The pattern is strict, because a name becomes part of NATS subjects. */
const NODE = /^[a-z0-9-]{1,32}$/
const LINK = /^[0-9a-f]{24}$/

export function encode(value: object): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}

/** Parses a beat, and leaves out slots that this cluster does not have. Returns undefined if the beat is invalid. */
export function readBeat(bytes: Uint8Array, slots: ReadonlySet<string>): Beat | undefined {
  const beat = decode(bytes) as Beat | undefined
  if (beat === undefined || !areTexts(beat.node, beat.incarnation, beat.shape)) return undefined
  const { offers, claims } = beat
  if (!NODE.test(beat.node) || !Array.isArray(offers) || !Array.isArray(claims)) return undefined
  if (beat.number !== undefined && !Number.isSafeInteger(beat.number)) return undefined
  if (!claims.every((claim) => Number.isSafeInteger(claim?.epoch) && claim.epoch > 0)) {
    return undefined
  }
  return {
    ...beat,
    offers: offers.filter((slot) => slots.has(slot)),
    claims: claims.filter(({ slot }) => slots.has(slot)),
  }
}

export function readOpening(bytes: Uint8Array): Opening | undefined {
  const asked = decode(bytes) as Opening | undefined
  if (asked === undefined || !areTexts(asked.link, asked.node, asked.incarnation)) return undefined
  if (!areTexts(asked.thread, asked.peer, asked.peerIncarnation)) return undefined
  return LINK.test(asked.link) && NODE.test(asked.node) ? asked : undefined
}

export function readSaid(bytes: Uint8Array): Said | undefined {
  const said = decode(bytes) as Said | undefined
  if (said === undefined || !areTexts(said.incarnation)) return undefined
  return isObject(said.message) ? said : undefined
}

/** Returns whether a link was opened. */
export function readOpened(bytes: Uint8Array): boolean {
  return (decode(bytes) as { ok?: unknown } | undefined)?.ok === true
}

function decode(bytes: Uint8Array): object | undefined {
  try {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function areTexts(...values: readonly unknown[]): boolean {
  return values.every((value) => typeof value === 'string')
}
