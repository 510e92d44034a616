/** Raises the limit on open files, because very many sockets need more than a shell usually allows. */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const RAISED = '--files-raised'

/** Starts the script again with a higher limit if this process may open fewer than `files` files. */
export function needFiles(files: number): void {
  const isRaised = process.argv.includes(RAISED)
  if (filesMax() >= files) return
  if (isRaised) throw new Error(`${files} open files are needed, the system allows ${filesMax()}`)
  const script = `ulimit -n ${2 * files} 2>/dev/null || ulimit -n $(ulimit -Hn); exec "$0" "$@"`
  const args = [
    '-c',
    script,
    process.execPath,
    ...process.execArgv,
    ...process.argv.slice(1),
    RAISED,
  ]
  process.exit(spawnSync('sh', args, { stdio: 'inherit' }).status ?? 1)
}

/**
 * Returns `wanted`, or the hard limit on open files if it is lower. `needFiles` raises the limit as far as the hard
 * limit allows.
 */
export function filesWithin(wanted: number): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(limits)?.[1]
    return hard === undefined ? wanted : Math.min(wanted, Number(hard))
  } catch {
    return wanted
  }
}

/**
 * Returns the number of files that this process may have open; `Infinity` if the system does not report the
 * limit.
 */
function filesMax(): number {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return found === undefined ? Number.POSITIVE_INFINITY : Number(found)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
