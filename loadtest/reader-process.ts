/** Starts, queries and stops the processes of the stream benchmark. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { FromReaders, ToReaders } from './stream-readers.ts'

export function startProcess(file: string, args: readonly string[] = []): ChildProcess {
  const path = fileURLToPath(new URL(file, import.meta.url))
  return spawn(process.execPath, [path, ...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
}

/** Ends the process; resolves when it has ended. */
export async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  if (child.connected) child.disconnect()
  await gone
}

/** Resolves with the next message of the process. */
export function received<Message>(child: ChildProcess): Promise<Message> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void =>
      reject(new Error(`a process of the benchmark ended with exit code ${code}`))
    child.once('exit', ended)
    child.once('message', (message) => {
      child.off('exit', ended)
      resolve(message as Message)
    })
  })
}

export async function askReaders(child: ChildProcess, message: ToReaders): Promise<FromReaders> {
  const answer = received<FromReaders>(child)
  child.send(message as object)
  return answer
}

/** Returns the request to follow the book of an outcome. */
export function followBook(marketId: string, outcome: 0 | 1): string {
  return JSON.stringify({ op: 'subscribe', channel: 'book', marketId, outcome })
}
