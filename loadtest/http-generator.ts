/**
 * Puts load on an HTTP server from a separate process: with wrk if it is installed, otherwise with autocannon. The two
 * have different maximum rates, so a run uses only one of them.
 */

import { spawn, spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'

export type Generator = 'wrk' | 'autocannon'

export type Load = {
  readonly url: string
  readonly connections: number
  readonly seconds: number
}

export type LoadResult = { readonly requestsPerSec: number; readonly requests: number }

/**
 * Returns the generator that `--generator` names. Without that option, returns wrk if it is installed, otherwise
 * autocannon.
 */
export function chooseGenerator(): Generator {
  const asked = process.argv[process.argv.indexOf('--generator') + 1]
  if (asked === 'autocannon' || asked === 'wrk') return asked
  return spawnSync('wrk', ['--version']).error === undefined ? 'wrk' : 'autocannon'
}

/** Runs the generator. Throws if a single request failed, because a rate with errors is meaningless. */
export async function runLoad(generator: Generator, load: Load): Promise<LoadResult> {
  return generator === 'wrk' ? runWrk(load) : runAutocannon(load)
}

async function runWrk({ url, connections, seconds }: Load): Promise<LoadResult> {
  const output = await run('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, url])
  const requests = Number(/(\d+) requests in/.exec(output)?.[1])
  const requestsPerSec = Number(/Requests\/sec:\s+([\d.]+)/.exec(output)?.[1])
  if (/Non-2xx|Socket errors/.test(output) || !(requests > 0)) throw new Error(output)
  return { requests, requestsPerSec }
}

type AutocannonReport = {
  readonly requests: { readonly total: number }
  readonly duration: number
  readonly errors: number
  readonly non2xx: number
}

async function runAutocannon({ url, connections, seconds }: Load): Promise<LoadResult> {
  const script = createRequire(import.meta.url).resolve('autocannon')
  const options = ['--json', '--no-progress', '-c', String(connections), '-d', String(seconds), url]
  const output = await run(process.execPath, [script, ...options])
  const report = JSON.parse(output) as AutocannonReport
  const { total } = report.requests
  if (report.errors > 0 || report.non2xx > 0 || total === 0) throw new Error(output)
  return { requests: total, requestsPerSec: total / report.duration }
}

function run(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    let complaints = ''
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk
    })
    child.stderr.on('data', (chunk: Buffer) => {
      complaints += chunk
    })
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve(output)
      else reject(new Error(`${command} ended with exit code ${code}: ${complaints}`))
    })
  })
}
