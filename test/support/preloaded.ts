/** C sources of tests that are preloaded into a program, where they stand between it and the C library. */

import { spawnSync } from 'node:child_process'
import { platform } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The library that was made of a source of this folder; undefined where none can be made. */
export function preloadOf(source: `${string}.c`, into: string): string | undefined {
  if (platform() !== 'linux') return undefined
  const library = join(into, source.replace(/c$/, 'so'))
  const path = fileURLToPath(new URL(source, import.meta.url))
  const flags = ['-shared', '-fPIC', '-O1', '-o', library, path, '-ldl', '-lpthread']
  return spawnSync('cc', flags).status === 0 ? library : undefined
}
