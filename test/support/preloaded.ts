/**
 * Compiles C sources of tests into libraries that are preloaded into a program, to intercept its calls of the C
 * library.
 */

import { spawnSync } from 'node:child_process'
import { platform } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Returns the compiled library; undefined if this machine cannot compile it. */
export function preloadOf(source: `${string}.c`, into: string): string | undefined {
  if (platform() !== 'linux') return undefined
  const library = join(into, source.replace(/c$/, 'so'))
  const path = fileURLToPath(new URL(source, import.meta.url))
  const flags = ['-shared', '-fPIC', '-O1', '-o', library, path, '-ldl', '-lpthread']
  return spawnSync('cc', flags).status === 0 ? library : undefined
}
