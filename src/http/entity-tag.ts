/** Entity tags: a client that has an answer already is told that it is still the same. */

import { hash } from 'node:crypto'

/** The tag of these bytes. Weak, because only what they mean has to be the same. */
export function entityTag(bytes: string | Uint8Array): string {
  return `W/"${hash('sha1', bytes, 'base64url')}"`
}

/** Whether the header `If-None-Match` names this tag. */
export function namesTag(header: string, tag: string): boolean {
  if (header === '') return false
  if (header === '*') return true
  const plain = opaque(tag)
  return header.split(',').some((one) => opaque(one.trim()) === plain)
}

function opaque(tag: string): string {
  return tag.startsWith('W/') ? tag.slice(2) : tag
}
