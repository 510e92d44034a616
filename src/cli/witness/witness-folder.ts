/** Checkpoints in a folder, one file per log. Each write replaces the file atomically and is durable. */

import { createHash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { WitnessState } from '#transparency/witness.ts'

/**
 * Returns the hash that names a log's file. By the witness standard, a witness also publishes the log's checkpoints
 * under this hash.
 */
export function originHash(origin: string): string {
  return createHash('sha256').update(origin).digest('hex')
}

export function originFile(origin: string): string {
  return `${originHash(origin)}.checkpoint`
}

/** Replaces a file atomically: a reader sees the old or the new text, also after a power cut. */
export function writeDurably(path: string, text: string): void {
  const draft = `${path}.new`
  const file = openSync(draft, 'w', 0o600)
  try {
    writeSync(file, text)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(draft, path)
  const folder = openSync(dirname(path), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

export function openWitnessFolder(folder: string): WitnessState {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const fileOf = (origin: string) => join(folder, originFile(origin))
  return {
    read: (origin) =>
      existsSync(fileOf(origin)) ? readFileSync(fileOf(origin), 'utf8') : undefined,
    write: (origin, checkpoint) => writeDurably(fileOf(origin), checkpoint),
  }
}
