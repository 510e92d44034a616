/**
 * The folder for the files of a test run. If `TMPDIR` is set, the folder is in `TMPDIR`. Otherwise it is in memory if
 * enough memory is free, because syncs to a disk take a third of the tests' time. With `npm run test:whole` it is
 * always on the disk. In memory and on disk, files survive the kill of a process.
 */

import { existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
const BYTES_MIN = 6 * 2 ** 30
/** Value of `TMPDIR` that the user set. The tests get the folder of the run as their `TMPDIR`. */
const asked = process.env.TMPDIR
const disk = tmpdir()
const NAME = /^sibyl-tests-(\d+)-/

/** Makes a folder for the files of a test run; the run removes it at its end. */
export function makeTestsFolder(): string {
  const whole = process.env.TEST_WHOLE === '1'
  const parent = asked === undefined && !whole && hasRoom() ? MEMORY : disk
  removeLeft(parent)
  return mkdtempSync(join(parent, `sibyl-tests-${process.pid}-`))
}

function hasRoom(): boolean {
  if (!existsSync(MEMORY)) return false
  const { bavail, bsize } = statfsSync(MEMORY)
  return bavail * bsize > BYTES_MIN && freemem() > BYTES_MIN
}

/** Removes the folders of killed runs, which did not remove their own. */
function removeLeft(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = NAME.exec(name)?.[1]
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue
    rmSync(join(parent, name), { recursive: true, force: true })
  }
}
