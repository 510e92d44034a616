/**
 * Node's own code, compiled with the flags of the tests. V8 rejects a code cache that was made under other flags, and
 * Node's built-in cache is made under none. Without this, every process and thread of a run would compile its part of
 * Node again, 50 ms each time. Made at the beginning of a run, in its folder.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Makes one of that name for processes with these flags; `snapshotFlags` finds it. */
export function makeSnapshot(folder: string, name: string, flags: readonly string[]): void {
  const entry = join(folder, 'nothing.cjs')
  writeFileSync(entry, '')
  const where = ['--snapshot-blob', pathOf(folder, name)]
  spawnSync(process.execPath, [...flags, ...where, '--build-snapshot', entry])
}

/** The flag with which a process begins with it. Where it could not be made it begins as usual. */
export function snapshotFlags(folder: string, name: string): string[] {
  const path = pathOf(folder, name)
  return existsSync(path) ? ['--snapshot-blob', path] : []
}

function pathOf(folder: string, name: string): string {
  return join(folder, `node-for-${name}.blob`)
}
