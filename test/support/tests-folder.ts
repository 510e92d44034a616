/**
 * Where tests have their files: in memory, where there is enough of it. What they write is synced all the
 * time, as an exchange must, and a third of the time of tests that do so is the disk's. What a killed
 * process has written is there in either place. `npm run test:whole` is on the disk, and so is everything
 * for who sets `TMPDIR`.
 */

import { existsSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
const BYTES_MIN = 6 * 2 ** 30
/** As this process was started: the tests have the folder of their run for it. */
const asked = process.env.TMPDIR
const disk = tmpdir()
const NAME = /^sibyl-tests-(\d+)-/

/** Makes a folder for a run of tests, which removes it in the end. */
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

/** Runs that were killed leave theirs. */
function removeLeft(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = NAME.exec(name)?.[1]
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue
    rmSync(join(parent, name), { recursive: true, force: true })
  }
}
