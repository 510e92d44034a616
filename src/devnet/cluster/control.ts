/** Controls a running cluster from another terminal, through a socket in its folder. */

import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { CommandError } from '../command.ts'
import { reportOf, statusLines } from './node-status.ts'
import { KINDS, type Kind } from './nodes.ts'
import { type Cluster, wordsOf } from './open-cluster.ts'

const socketIn = (folder: string): string => join(folder, 'control')

type Closing = { close(): void }

/**
 * Accepts the commands `status`, `kill NODE`, `drain NODE`, `start NODE`, `cut NODE`, `mend NODE` and `add KIND`;
 * answers with lines of text.
 */
export async function serveControl(folder: string, cluster: Cluster): Promise<Closing> {
  const server = createServer((asked, answer) => {
    const words = decodeURIComponent((asked.url ?? '/').slice(1)).split(' ')
    carryOut(cluster, words).then(
      (said) => answer.writeHead(200).end(said),
      (error: Error) => answer.writeHead(400).end(error.message.split('\n')[0]),
    )
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(socketIn(folder), resolve)
  })
  return server
}

/** Sends a command to the cluster that runs in the folder. */
export function sendCommand(folder: string, words: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const asked = request({
      socketPath: socketIn(folder),
      path: `/${encodeURIComponent(words.join(' '))}`,
    })
    asked.once('error', () => {
      reject(new CommandError(`no cluster runs in ${folder}; npm run cluster starts one`))
    })
    asked.once('response', (answer) => {
      let said = ''
      answer.setEncoding('utf8')
      answer.on('data', (chunk: string) => {
        said += chunk
      })
      answer.once('end', () => {
        if (answer.statusCode === 200) resolve(said)
        else reject(new CommandError(said))
      })
    })
    asked.end()
  })
}

async function carryOut(cluster: Cluster, words: readonly string[]): Promise<string> {
  const [verb = '', what = ''] = words
  if (verb === 'status') return statusOf(cluster)
  if (verb === 'add') {
    if (!isKind(what))
      throw new CommandError(
        'the command "add" must be followed by the kind of the new node, one of ' +
          `${Object.keys(KINDS).join(', ')}`,
      )
    return `${wordsOf(await cluster.add(what))}\n`
  }
  const node = cluster.nodes.get(what)
  if (node === undefined) {
    throw new CommandError(
      `there is no node '${what}'; the nodes are ${[...cluster.nodes.keys()].join(', ')}`,
    )
  }
  if (verb === 'kill') await node.kill()
  else if (verb === 'drain') await node.drain()
  else if (verb === 'start') await node.start()
  else if (verb === 'cut') node.cut('silent')
  else if (verb === 'mend') node.cut('whole')
  else
    throw new CommandError(
      `there is no command '${verb}'; the commands are status, kill, drain, start, cut, mend, add`,
    )
  return statusOf(cluster)
}

function isKind(word: string): word is Kind {
  return Object.hasOwn(KINDS, word)
}

async function statusOf({ nodes, nats, threads }: Cluster): Promise<string> {
  const reports = await Promise.all([...nodes.values()].map(reportOf))
  const up = Array.from({ length: nats.count }, (_, server) => nats.isUp(server)).filter(Boolean)
  const lines = [
    ...statusLines(reports, threads),
    `nats       ${up.length} of ${nats.count} servers`,
  ]
  return `${lines.join('\n')}\n`
}
