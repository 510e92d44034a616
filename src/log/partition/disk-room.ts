/**
 * Watches the free space on the disk of the log. Below a limit the disk counts as full: the owner accepts no new
 * orders, and the remaining space is for cancels and reports. If the disk still becomes completely full, a reserve file
 * is deleted to make room for cancels and reports. When there is enough space again, the reserve file is written again,
 * and the disk no longer counts as full.
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
  /** Checks the free space; called about once a second. Returns whether `isFull` changed. */
  look(): boolean
  /** Deletes the reserve file; called after a write has failed for lack of space. */
  spend(): void
}

export function openDiskRoom(options: {
  readonly folder: string
  /** Name of the reserve file; each writer has its own. */
  readonly name: string
  /**
   * `reserveBytes`: size of the reserve file. `freeBytesMin`: space that must be free in addition to the reserve file.
   */
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

  /** Writes the reserve file; returns false if there is not enough space. */
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

/** Returns whether this error, or a cause of it, means that a disk is full. */
export function isDiskFull(error: unknown): boolean {
  if (error instanceof Fault) return isDiskFull(error.cause)
  if (error instanceof Database.SqliteError) return error.code === 'SQLITE_FULL'
  return (error as NodeJS.ErrnoException | undefined)?.code === 'ENOSPC'
}
