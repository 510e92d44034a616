/**
 * Measures an exchange from outside during a soak: its resident memory, the size of its files, and how fast they grow.
 */

import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { median } from './bench.ts'

const KIB_PER_MIB = 1_024

/** Opens a reader of the resident memory of the process that uses this data folder. */
export async function openResident(dataDir: string): Promise<() => Promise<number>> {
  const pid = await pidOf(dataDir)
  return async () => {
    const status = await readFile(`/proc/${pid}/status`, 'utf8')
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / KIB_PER_MIB
  }
}

async function pidOf(dataDir: string): Promise<string> {
  for (const each of await readdir('/proc')) {
    if (!/^\d+$/.test(each)) continue
    const environment = await readFile(`/proc/${each}/environ`, 'latin1').catch(() => '')
    if (environment.includes(`SIBYL_DATA_DIR=${dataDir}\0`)) return each
  }
  throw new Error('no running process belongs to the exchange')
}

/** Returns the heap that each thread has allocated from the system, in MiB, as the exchange reports it. */
export async function heapsOf(url: string): Promise<Map<string, number>> {
  const heaps = new Map<string, number>()
  const text = await (await fetch(`${url}/metrics`)).text()
  const line = /^sibyl_thread_heap_bytes\{(?=[^}]*kind="total")[^}]*thread="([^"]+)"[^}]*\} (\d+)/gm
  for (const [, thread = '', bytes] of text.matchAll(line)) {
    heaps.set(thread, Math.round(Number(bytes) / KIB_PER_MIB / KIB_PER_MIB))
  }
  return heaps
}

/** Returns the total bytes of the files below each entry of a folder, by the name of the entry. */
export async function bytesIn(folder: string): Promise<Map<string, number>> {
  const sizes = new Map<string, number>()
  for (const path of await readdir(folder, { recursive: true })) {
    // The file may have been removed since the folder was listed.
    const found = await stat(join(folder, path)).catch(() => undefined)
    if (found?.isFile() !== true) continue
    const name = path.split('/', 1)[0] ?? path
    sizes.set(name, (sizes.get(name) ?? 0) + found.size)
  }
  return sizes
}

/** Returns the slope of the samples: the median of the slopes between all pairs of samples. */
export function slopeOf(samples: readonly (readonly [x: number, y: number])[]): number {
  const slopes: number[] = []
  for (const [index, [x, y]] of samples.entries()) {
    for (const [later, value] of samples.slice(index + 1)) slopes.push((value - y) / (later - x))
  }
  return median(slopes)
}
