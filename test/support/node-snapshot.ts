/**
 * A snapshot of Node's own code, compiled with the flags of the tests. V8 rejects a code cache that was made with other
 * flags, and Node's built-in cache is made without flags. Without the snapshot, every process and thread would
 * therefore compile Node's code again, which takes 50 ms. The snapshot is made at the beginning of a run, in the run's
 * folder.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Makes a snapshot with this name for processes with these flags. */
export function makeSnapshot(folder: string, name: string, flags: readonly string[]): void {
  const entry = join(folder, 'nothing.cjs')
  writeFileSync(entry, '')
  const where = ['--snapshot-blob', pathOf(folder, name)]
  spawnSync(process.execPath, [...flags, ...where, '--build-snapshot', entry])
}

/** Returns the flags that start a process from the snapshot; empty if there is no snapshot. */
export function snapshotFlags(folder: string, name: string): string[] {
  const path = pathOf(folder, name)
  return existsSync(path) ? ['--snapshot-blob', path] : []
}

function pathOf(folder: string, name: string): string {
  return join(folder, `node-for-${name}.blob`)
}
