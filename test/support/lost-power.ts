/**
 * Simulates a power failure. The disk keeps everything that the program synced, and a random part of the other writes.
 * A write may be torn between two sectors. Every write of a program is recorded (`record-writes.c`), so that the disk
 * at any instant can be rebuilt.
 */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { preloadOf } from './preloaded.ts'
import type { Random } from './random.ts'

const SECTOR = 512

/** An operation on a file: w write, s sync, e failed sync, t truncation, r rename, u removal. */
export type Op = { kind: 'w' | 's' | 'e' | 't' | 'r' | 'u'; path: string; at: number; data: Buffer }

/**
 * Runs a program to its end, and returns its writes below a folder. Returns undefined if this machine cannot record
 * writes.
 */
export function recordWrites(
  program: URL,
  args: readonly string[],
  { below, scratch }: { readonly below: string; readonly scratch: string },
): readonly Op[] | undefined {
  const library = preloadOf('record-writes.c', scratch)
  if (library === undefined) return undefined
  const record = join(scratch, 'record')
  const child = spawnSync(
    process.execPath,
    [...process.execArgv, fileURLToPath(program), ...args],
    {
      encoding: 'utf8',
      env: {
        ...process.env,
        LD_PRELOAD: library,
        RECORD_TO: record,
        RECORD_BELOW: below,
        FAIL_SYNC: join(scratch, 'fail-sync'),
      },
    },
  )
  assert.equal(child.status, 0, child.stderr)
  return readRecord(record)
}

function readRecord(path: string): Op[] {
  const bytes = readFileSync(path)
  const ops: Op[] = []
  for (let at = 0; at < bytes.length; ) {
    const pathLength = bytes.readUInt16LE(at + 1)
    const head = at + 3 + pathLength
    const length = bytes.readUInt32LE(head + 8)
    ops.push({
      kind: String.fromCharCode(bytes[at]!) as Op['kind'],
      path: bytes.toString('utf8', at + 3, head),
      at: Number(bytes.readBigUInt64LE(head)),
      data: bytes.subarray(head + 12, head + 12 + length),
    })
    at = head + 12 + length
  }
  return ops
}

/** The durable content of a file, and its later operations, which may be lost. */
type DiskFile = { bytes: Buffer; pending: Op[]; isOwn: boolean }

/** Returns the files on the disk if the power fails right after the last of these operations. */
export function diskAfter(start: ReadonlyMap<string, Buffer>, ops: readonly Op[], random: Random) {
  const files = new Map<string, DiskFile>()
  for (const [path, bytes] of start) files.set(path, { bytes, pending: [], isOwn: false })
  const fileAt = (path: string): DiskFile => {
    const file = files.get(path) ?? { bytes: Buffer.alloc(0), pending: [], isOwn: true }
    files.set(path, file)
    return file
  }
  // Renames and removals become durable in their order. All those before the last sync of a folder survive. Of those
  // after it, a random number survive, beginning with the oldest.
  const lastNameKept = lastSurvivingName(ops, random)
  for (const [index, op] of ops.entries()) {
    if (op.kind === 's') settle(files.get(op.path), () => true)
    else if (op.kind === 'e') settle(files.get(op.path), () => false)
    else if (op.kind === 'r' || op.kind === 'u') {
      const file = files.get(op.path)
      if (file === undefined || index > lastNameKept) continue
      files.delete(op.path)
      if (op.kind === 'r') files.set(op.data.toString('utf8'), file)
    } else fileAt(op.path).pending.push(op)
  }
  const style = random.int(0, 2)
  for (const file of files.values()) {
    settle(file, () => (style === 0 ? false : style === 1 ? random.chance(0.5) : true), random)
  }
  return files
}

function lastSurvivingName(ops: readonly Op[], random: Random): number {
  let synced = -1
  const since: number[] = []
  for (const [index, { kind, path }] of ops.entries()) {
    const isName = kind === 'r' || kind === 'u'
    if (isName) since.push(index)
    // A sync of a folder makes its earlier renames and removals durable.
    else if (kind === 's' && since.some((each) => dirname(ops[each]!.path) === path)) {
      synced = index
      since.length = 0
    }
  }
  return since.length === 0 ? ops.length : Math.max(synced, random.pick([synced, ...since]))
}

/**
 * Applies the file's pending operations that survive, and drops the others. With `torn`, some writes are applied only
 * in part.
 */
function settle(file: DiskFile | undefined, survives: () => boolean, torn?: Random): void {
  if (file === undefined) return
  for (const { kind, at, data } of file.pending) {
    if (!survives()) continue
    if (kind === 't') {
      const bytes = Buffer.alloc(at)
      file.bytes.copy(bytes)
      file.bytes = bytes
      file.isOwn = false
      continue
    }
    // A sector is written whole or not at all.
    const sectors = Math.ceil((at + data.length) / SECTOR) - Math.floor(at / SECTOR)
    const kept = torn?.chance(0.3) ? torn.int(0, sectors) : sectors
    const end = Math.min(data.length, (Math.floor(at / SECTOR) + kept) * SECTOR - at)
    if (end <= 0) continue
    // The buffer doubles, so that a growing file is not copied for each write.
    if (!file.isOwn || file.bytes.buffer.byteLength < at + end) {
      const room = Buffer.alloc(2 * Math.max(file.bytes.length, at + end))
      file.bytes.copy(room)
      file.bytes = room.subarray(0, file.bytes.length)
      file.isOwn = true
    }
    if (file.bytes.length < at + end) file.bytes = Buffer.from(file.bytes.buffer, 0, at + end)
    data.copy(file.bytes, at, 0, end)
  }
  file.pending = []
}
