/**
 * The list of a backup's contents, `manifest.json`. It has the length and the SHA-256 of every file, and a SHA-256 over
 * all of this data. The manifest is written last, so a folder without a manifest is not a complete backup.
 */

import { createHash } from 'node:crypto'
import {
  closeSync,
  createReadStream,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, sep } from 'node:path'
import { Fault } from '#domain/fault.ts'
import type { CopiedPartition } from '#log/copy-log.ts'
import type { Dialect } from '#store/copies/copy-database.ts'

const NAME = 'manifest.json'
const FORMAT = 1

type FileEntry = { readonly path: string; readonly bytes: number; readonly sha256: string }

export type Manifest = {
  readonly format: number
  readonly madeAt: string
  readonly logId: string
  readonly partitions: readonly CopiedPartition[]
  readonly database: Dialect
  readonly files: readonly FileEntry[]
}

/** Writes the manifest of all files in a folder; this completes the backup. */
export async function writeManifest(
  folder: string,
  about: Omit<Manifest, 'format' | 'files'>,
): Promise<Manifest> {
  const files: FileEntry[] = []
  for (const path of filesIn(folder)) {
    const whole = join(folder, path)
    sync(whole)
    files.push({ path, bytes: statSync(whole).size, sha256: await sumOf(whole) })
  }
  const manifest: Manifest = { format: FORMAT, ...about, files }
  const sum = createHash('sha256').update(JSON.stringify(manifest)).digest('hex')
  const draft = join(folder, `${NAME}.new`)
  writeFileSync(draft, `${JSON.stringify({ manifest, sha256: sum }, null, 1)}\n`, { flush: true })
  renameSync(draft, join(folder, NAME))
  sync(folder)
  return manifest
}

/** Returns the manifest of a folder after checking every byte. */
export async function checkManifest(folder: string): Promise<Manifest> {
  const manifest = readManifest(folder)
  for (const { path, bytes, sha256 } of manifest.files) {
    const whole = join(folder, path)
    if (!existsSync(whole)) throw refused(`${whole} is missing`)
    if (statSync(whole).size !== bytes || (await sumOf(whole)) !== sha256) {
      throw refused(`${whole} is damaged`)
    }
  }
  return manifest
}

function readManifest(folder: string): Manifest {
  const path = join(folder, NAME)
  if (!existsSync(path)) {
    throw refused(`${folder} has no ${NAME}: it is not a backup, or an unfinished one`)
  }
  let read: { readonly manifest: Manifest; readonly sha256: string }
  try {
    read = JSON.parse(readFileSync(path, 'utf8')) as typeof read
  } catch {
    throw refused(`${path} is damaged`)
  }
  const { manifest, sha256 } = read
  const sum = createHash('sha256').update(JSON.stringify(manifest)).digest('hex')
  if (sum !== sha256) throw refused(`${path} is damaged`)
  if (manifest.format !== FORMAT) {
    throw refused(
      `${path} has format ${manifest.format}, but this program reads only format ${FORMAT}`,
    )
  }
  return manifest
}

/** Returns relative paths in a fixed order, with slashes on every system. */
function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .map((path) => path.split(sep).join('/'))
    .sort()
}

async function sumOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const part of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(part)
  return hash.digest('hex')
}

function sync(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

function refused(why: string): Fault {
  return new Fault('BACKUP_REFUSED', why, { retryable: false })
}
