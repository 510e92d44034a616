/** Entity tags. A client that sends back the tag of an answer receives 304 while the answer is unchanged. */

import { hash } from 'node:crypto'

/** Returns the tag of these bytes. The tag is weak: it promises equal meaning, and not equal bytes. */
export function entityTag(bytes: string | Uint8Array): string {
  return `W/"${hash('sha1', bytes, 'base64url')}"`
}

/** Returns whether `If-None-Match` contains this tag. */
export function namesTag(header: string, tag: string): boolean {
  if (header === '') return false
  if (header === '*') return true
  const plain = opaque(tag)
  return header.split(',').some((one) => opaque(one.trim()) === plain)
}

function opaque(tag: string): string {
  return tag.startsWith('W/') ? tag.slice(2) : tag
}
