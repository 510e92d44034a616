/** The processes of the stream benchmark, and how they are asked. */

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

/** Lets it go; done when it is gone. */
export async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  if (child.connected) child.disconnect()
  await gone
}

/** The next that the process says. */
export function heard<Message>(child: ChildProcess): Promise<Message> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void => reject(new Error(`a process ended with ${code}`))
    child.once('exit', ended)
    child.once('message', (message) => {
      child.off('exit', ended)
      resolve(message as Message)
    })
  })
}

export async function askReaders(child: ChildProcess, message: ToReaders): Promise<FromReaders> {
  const answer = heard<FromReaders>(child)
  child.send(message as object)
  return answer
}

/** Asks to follow the book of an outcome. */
export function followBook(marketId: string, outcome: 0 | 1): string {
  return JSON.stringify({ op: 'subscribe', channel: 'book', marketId, outcome })
}
