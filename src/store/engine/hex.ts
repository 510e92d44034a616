/**
 * Hashes, ids, addresses and signatures lie in the database as bytes: half the size of their hex, and
 * so are the indexes that most of the writing goes into. Everywhere else they are 0x-hex.
 */

import assert from 'node:assert/strict'
import { Type } from '@mikro-orm/core'

const HEX = /^0x(?:[0-9a-f]{2})+$/

/** The digits alone; nothing else than lower-case hex of whole bytes comes through. */
export function hexDigits(hex: string): string {
  assert(HEX.test(hex), 'ids, hashes, addresses and signatures must be lower-case 0x-hex')
  return hex.slice(2)
}

export function bytesOf(hex: string): Buffer {
  const bytes = Buffer.from(hex.slice(2), 'hex')
  assertHex(hex, bytes.length)
  return bytes
}

/** The same into memory of its own, which has the right length: to make a buffer costs more than to fill one. */
export function fillBytes(bytes: Buffer, hex: string): void {
  assertHex(hex, bytes.write(hex.slice(2), 'hex'))
}

function assertHex(hex: string, length: number): void {
  // Quicker than a pattern: Node stops at the first character whose low byte is no hex digit, and each
  // character is one byte of UTF-8.
  const isHex = length * 2 === hex.length - 2 && Buffer.byteLength(hex) === hex.length
  assert(isHex && hex.startsWith('0x'), 'expected 0x-hex')
}

export function hexOf(bytes: Uint8Array): string {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`
}

/** The digits of such a column, made by the database: a text costs half of what bytes do on their way here. */
export function hexColumn(column: string): string {
  return `lower(hex(${column}))`
}

/** What such digits say; '' for none, which the databases tell apart. */
export function hexOfDigits(digits: string | null): string {
  return digits === null || digits === '' ? '' : `0x${digits}`
}

/** The property type of such a column. */
export class HexType extends Type<string, Buffer> {
  override convertToDatabaseValue(hex: string): Buffer {
    // The ORM sends null through as well, whatever the types say.
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
