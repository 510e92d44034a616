/**
 * Whether there is room on the disk of the log. Below a bound it is full: the owner takes no new orders, and
 * what is left is for cancels and reports. Should the disk be filled to the last byte nevertheless, a file
 * that was written ahead makes room for them, once. When there is enough room again, the file is written
 * anew and the disk counts as roomy.
 */

import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'

export type DiskRoom = {
  readonly isFull: boolean
  /** Looks how much there is; to be called about once a second. Answers whether `isFull` changed. */
  look(): boolean
  /** A write has failed for want of room: makes some, from what was kept for that. */
  spend(): void
}

export function openDiskRoom(options: {
  readonly folder: string
  /** The name of the file that is written ahead; each writer has its own. */
  readonly name: string
  /** Its bytes, and how much must be free besides. */
  readonly reserveBytes: number
  readonly freeBytesMin: number
}): DiskRoom {
  const { folder, reserveBytes, freeBytesMin } = options
  const path = join(folder, options.name)
  let isFull = false

  const freeBytes = (): number => {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  }
  const isKept = (): boolean => existsSync(path) && statSync(path).size === reserveBytes

  /** Takes the room of the file; false when there is not so much. */
  function keep(): boolean {
    if (isKept()) return true
    if (freeBytes() < freeBytesMin + reserveBytes) return false
    const file = openSync(path, 'w')
    try {
      const zeros = Buffer.alloc(Math.min(reserveBytes, 1024 * 1024))
      for (let at = 0; at < reserveBytes; at += zeros.length) {
        writeSync(file, zeros, 0, Math.min(zeros.length, reserveBytes - at), at)
      }
      fsyncSync(file)
      return true
    } catch (error) {
      if (!isDiskFull(error)) throw error
      ftruncateSync(file, 0)
      return false
    } finally {
      closeSync(file)
    }
  }

  const room: DiskRoom = {
    get isFull() {
      return isFull
    },
    look() {
      const was = isFull
      isFull = freeBytes() < freeBytesMin || !keep()
      return isFull !== was
    },
    spend() {
      rmSync(path, { force: true })
      isFull = true
    },
  }
  room.look()
  return room
}

/** Whether this, or what caused it, says that a disk is full. */
export function isDiskFull(error: unknown): boolean {
  if (error instanceof Fault) return isDiskFull(error.cause)
  if (error instanceof Database.SqliteError) return error.code === 'SQLITE_FULL'
  return (error as NodeJS.ErrnoException | undefined)?.code === 'ENOSPC'
}
