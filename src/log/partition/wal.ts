/**
 * Reads SQLite's write-ahead file before SQLite does, to distinguish an incomplete end from damage in the middle. It
 * only reads the `-wal` file: opening and closing the database file here would drop SQLite's locks on that file in this
 * process.
 *
 * SQLite uses the frames before the first frame with a wrong checksum, and silently drops that frame and all later
 * ones. That is correct after a power cut during a commit. But if a bit flipped in a frame of an acknowledged commit,
 * SQLite would also drop acknowledged commits.
 *
 * Every commit is synced before the next begins, so at most the last commit in the file can be unsynced. This
 * distinguishes the two cases. If frames of the same generation (the same salts) follow a commit frame at or after the
 * wrong checksum, that commit was synced. Then the file is damaged.
 *
 * The file is a header of 32 bytes, and frames of 24 bytes plus a page. Numbers are big-endian. A frame's header has
 * the page number, the database size in pages (not 0 at a commit), two salts, and two checksum words. The checksum
 * continues from the frame before.
 */

import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { corrupt } from './record.ts'

const HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
const MAGIC = 0x377f0682
const FORMAT = 3_007_000

/**
 * Throws `LOG_CORRUPT` if damage in the file would make SQLite drop durable commits. An incomplete last commit is no
 * damage.
 */
export function checkWal(path: string): void {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  try {
    check(path, file, fstatSync(file).size)
  } finally {
    closeSync(file)
  }
}

function check(path: string, file: number, size: number): void {
  const header = Buffer.alloc(HEADER_BYTES)
  const read = readSync(file, header, 0, HEADER_BYTES, 0)
  if (header.every((byte) => byte === 0)) return
  const magic = header.readUInt32BE(0)
  const swapped = magic === MAGIC + 1
  const pageBytes = header.readUInt32BE(8)
  const sum: Sum = [0, 0]
  addToSum(sum, header.subarray(0, 24), swapped)
  const whole =
    read === HEADER_BYTES &&
    (magic === MAGIC || swapped) &&
    header.readUInt32BE(4) === FORMAT &&
    pageBytes >= 512 &&
    pageBytes <= 65_536 &&
    (pageBytes & (pageBytes - 1)) === 0 &&
    sum[0] === header.readUInt32BE(24) &&
    sum[1] === header.readUInt32BE(28)
  if (!whole) {
    // SQLite writes and syncs the header, within one sector, before any frame. So if the header is incomplete, nothing
    // was committed. A complete header with wrong content means damage.
    if (size < HEADER_BYTES) return
    throw corrupt(`${path}: the header of the write-ahead file is damaged`)
  }
  const frameBytes = FRAME_HEADER_BYTES + pageBytes
  const frame = Buffer.alloc(frameBytes)
  let frames = 0
  let broken = false
  let brokenCommits = 0
  for (let at = HEADER_BYTES; at + FRAME_HEADER_BYTES <= size; at += frameBytes) {
    const length = readSync(file, frame, 0, frameBytes, at)
    const ours = length >= FRAME_HEADER_BYTES && frame.compare(header, 16, 24, 8, 16) === 0
    const commits = frame.readUInt32BE(4) !== 0
    if (!broken) {
      if (ours && length === frameBytes && frame.readUInt32BE(0) !== 0) {
        addToSum(sum, frame.subarray(0, 8), swapped)
        addToSum(sum, frame.subarray(FRAME_HEADER_BYTES), swapped)
        broken = sum[0] !== frame.readUInt32BE(16) || sum[1] !== frame.readUInt32BE(20)
      } else {
        broken = true
      }
      if (!broken) {
        frames++
        continue
      }
    }
    if (!ours) continue
    if (brokenCommits > 0) {
      throw corrupt(
        `${path}: frame ${frames + 1} of the write-ahead file is damaged, and commits that were ` +
          'made durable follow the damaged frame; restore all files of the partition from the same backup',
      )
    }
    if (commits) brokenCommits++
  }
}

type Sum = [number, number]

/** Adds bytes to the checksum of SQLite's write-ahead file: two running sums over pairs of 32-bit words. */
function addToSum(sum: Sum, bytes: Buffer, bigEndian: boolean): void {
  let [first, second] = sum
  for (let at = 0; at < bytes.length; at += 8) {
    const one = bigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at)
    const two = bigEndian ? bytes.readUInt32BE(at + 4) : bytes.readUInt32LE(at + 4)
    first = (first + one + second) >>> 0
    second = (second + two + first) >>> 0
  }
  sum[0] = first
  sum[1] = second
}
