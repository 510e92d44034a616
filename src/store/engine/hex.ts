/**
 * Hashes, ids, addresses and signatures are stored as bytes in the database. Bytes need half the space of hex text,
 * also in the indexes. Everywhere else these values are 0x-hex.
 */

import assert from 'node:assert/strict'
import { Type } from '@mikro-orm/core'

const HEX = /^0x(?:[0-9a-f]{2})+$/

/** Returns the hex digits without `0x`. Rejects everything but lower-case hex of whole bytes. */
export function hexDigits(hex: string): string {
  assert(HEX.test(hex), 'ids, hashes, addresses and signatures must be lower-case 0x-hex')
  return hex.slice(2)
}

export function bytesOf(hex: string): Buffer {
  const bytes = Buffer.from(hex.slice(2), 'hex')
  assertHex(hex, bytes.length)
  return bytes
}

/** Fills an existing buffer of the right length: creating a buffer costs more than filling one. */
export function fillBytes(bytes: Buffer, hex: string): void {
  assertHex(hex, bytes.write(hex.slice(2), 'hex'))
}

function assertHex(hex: string, length: number): void {
  // This check is faster than a regular expression. Node converts text only up to the first character whose low byte is
  // not a hex digit, so invalid text gives too few bytes. The comparison of byte lengths excludes characters beyond
  // ASCII.
  const isHex = length * 2 === hex.length - 2 && Buffer.byteLength(hex) === hex.length
  assert(isHex && hex.startsWith('0x'), 'expected 0x-hex')
}

export function hexOf(bytes: Uint8Array): string {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`
}

/**
 * Returns an SQL expression that converts a column to hex digits in the database, because transferring text
 * costs half as much as transferring bytes.
 */
export function hexColumn(column: string): string {
  return `lower(hex(${column}))`
}

/**
 * Converts hex digits from `hexColumn` to 0x-hex. Returns '' for a column that is null, for which some databases return
 * null and others an empty text.
 */
export function hexOfDigits(digits: string | null): string {
  return digits === null || digits === '' ? '' : `0x${digits}`
}

/** ORM property type of a hex column. */
export class HexType extends Type<string, Buffer> {
  override convertToDatabaseValue(hex: string): Buffer {
    // The ORM passes null too, despite the types.
    return hex === null || hex === undefined ? hex : bytesOf(hex)
  }

  override convertToJSValue(bytes: Buffer): string {
    return bytes === null || bytes === undefined ? bytes : hexOf(bytes)
  }

  override compareAsType(): string {
    return 'string'
  }

  override getColumnType(property: { length?: number }): string {
    return `binary(${property.length ?? 32})`
  }
}
