/**
 * An event: a group of markets, such as one market per candidate. Its metadata is JSON, signed by an operator of the
 * factory and stored on the chain with each of its markets. The metadata never changes: metadata with different bytes
 * belongs to a different event.
 */

import { EVENT_BYTES_MAX, EVENT_TAGS_MAX } from './limits.ts'
import { CATEGORIES, type Category } from './market.ts'

export type EventInfo = {
  /** Name in URLs; unique on its chain. */
  readonly slug: string
  readonly title: string
  readonly category: Category
  readonly tags: readonly string[]
  /** SHA-256 of an image as `0x` and 64 hex digits, an emoji, or empty. */
  readonly image: string
  readonly description: string
  /** Unix seconds. */
  readonly end: number
  /** True if at most one of the event's markets can resolve to YES. */
  readonly exclusive: boolean
}

const SLUG_CHARS_MAX = 64
const TAG_CHARS_MAX = 32
const TITLE_CHARS_MAX = 200
const DESCRIPTION_CHARS_MAX = 4_000
const EMOJI_CHARS_MAX = 16
/** The last second of the year 9999. */
const END_SEC_MAX = 253_402_300_799

const NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/
const IMAGE_HASH = /^0x[0-9a-f]{64}$/
/** Matches ASCII. An emoji image must not contain ASCII, so that the image cannot contain markup or words. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII starts with control characters
const ASCII = /[\u0000-\u007f]/
/**
 * Matches control characters, characters that change the direction of the text around them, and invisible characters.
 * With these characters, two different titles could look the same. The joiners of emoji and scripts are allowed.
 */
const UNSAFE =
  /[\p{Cc}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\u034f|[\u{e0000}-\u{e007f}]/u

export function isEventSlug(text: string): boolean {
  return text.length <= SLUG_CHARS_MAX && NAME.test(text)
}

/** Rule of each field: returns undefined if the value is valid, otherwise a description of the required form. */
const RULES: { readonly [Field in keyof EventInfo]: (value: unknown) => string | undefined } = {
  slug: (value) =>
    typeof value === 'string' && isEventSlug(value)
      ? undefined
      : `must be 1 to ${SLUG_CHARS_MAX} characters of a-z, 0-9 and single hyphens`,
  title: (value) =>
    isText(value, TITLE_CHARS_MAX) && value.trim() !== '' && !UNSAFE.test(value)
      ? undefined
      : `must be one line of 1 to ${TITLE_CHARS_MAX} characters`,
  category: (value) =>
    CATEGORIES.some((name) => name === value)
      ? undefined
      : `must be one of ${CATEGORIES.join(', ')}`,
  tags: (value) =>
    Array.isArray(value) &&
    value.length <= EVENT_TAGS_MAX &&
    value.every(isTag) &&
    new Set(value).size === value.length
      ? undefined
      : `must be at most ${EVENT_TAGS_MAX} different names of a-z, 0-9 and single hyphens, each up to ${TAG_CHARS_MAX} characters`,
  image: (value) =>
    typeof value === 'string' && (value === '' || IMAGE_HASH.test(value) || isEmoji(value))
      ? undefined
      : 'must be empty, an emoji, or 0x and the 64 lower-case hex digits of a SHA-256',
  description: (value) =>
    isText(value, DESCRIPTION_CHARS_MAX) && !UNSAFE.test(value.replaceAll('\n', ''))
      ? undefined
      : `must be text of at most ${DESCRIPTION_CHARS_MAX} characters`,
  end: (value) =>
    Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= END_SEC_MAX
      ? undefined
      : 'must be Unix seconds',
  exclusive: (value) => (typeof value === 'boolean' ? undefined : 'must be true or false'),
}

const FIELDS = Object.keys(RULES) as (keyof EventInfo)[]

/** Returns the metadata as the text that an operator signs; the caller validates it with `readEventInfo` first. */
export function eventText(info: EventInfo): string {
  return JSON.stringify(Object.fromEntries(FIELDS.map((field) => [field, info[field]])))
}

/** Parses the metadata; returns the event, or the reason why the metadata is invalid. */
export function readEventInfo(metadata: Uint8Array): EventInfo | { readonly why: string } {
  if (metadata.length > EVENT_BYTES_MAX) {
    return { why: `the metadata must have at most ${EVENT_BYTES_MAX} bytes` }
  }
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(metadata))
  } catch {
    return { why: 'the metadata must be JSON in UTF-8' }
  }
  return checkEventInfo(value)
}

/**
 * Validates an event; returns the event, or a text that names an invalid field and the reason. Rejects unknown fields.
 */
export function checkEventInfo(value: unknown): EventInfo | { readonly why: string } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { why: 'the metadata must be a JSON object' }
  }
  const given = value as Record<string, unknown>
  const unknown = Object.keys(given).find((name) => !(FIELDS as string[]).includes(name))
  if (unknown !== undefined) return { why: `${unknown.slice(0, 32)} is not a field of an event` }
  for (const field of FIELDS) {
    const why = RULES[field](given[field])
    if (why !== undefined) return { why: `${field} ${why}` }
  }
  return given as EventInfo
}

function isText(value: unknown, charsMax: number): value is string {
  return typeof value === 'string' && value.length <= charsMax && value.isWellFormed()
}

function isTag(value: unknown): boolean {
  return typeof value === 'string' && value.length <= TAG_CHARS_MAX && NAME.test(value)
}

function isEmoji(value: string): boolean {
  return isText(value, EMOJI_CHARS_MAX) && !ASCII.test(value) && !UNSAFE.test(value)
}
