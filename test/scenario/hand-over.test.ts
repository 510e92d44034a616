/** A planned stop of the node with the books, as a load balancer sees it: no front stops being ready. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startCluster } from '../support/cluster.ts'
import { onServerDatabase } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { natsMissing } from '../support/nats.ts'

const SERVES = /this node serves market-0/

await onServerDatabase('a hand-over', ({ fresh }) => {
  test('both fronts stay ready while a stopped node hands its markets to another', {
    skip: natsMissing,
  }, async (t) => {
    const cluster = await startCluster(t, fresh, { SIBYL_FEEDS_LIVE: 'false' })
    const [front, other, books] = await Promise.all([
      cluster.node('front-a', 'front'),
      cluster.node('front-b', 'front'),
      cluster.node('books-a', 'market'),
      cluster.node('rest', 'store,chain,prices'),
    ])
    const standby = await cluster.node('books-b', 'market')
    await eventually(() => assert.match(books.output(), SERVES))
    await eventually(() => assert.match(standby.output(), /the node is in the cluster/))

    const watch = watchReadiness([front.url, other.url])
    await eventually(() => assert(watch.answers() >= 10))
    await books.stop()
    await eventually(() => assert.match(standby.output(), SERVES))
    // The markets are served, read and confirmed again.
    for (const { url } of [front, other]) {
      await eventually(async () =>
        assert.equal((await fetch(`${url}/api/v1/markets`)).headers.get('sibyl-stale'), null),
      )
    }
    const after = watch.answers()
    await eventually(() => assert(watch.answers() >= after + 10))
    assert.deepEqual(await watch.end(), [])

    // A node that dies hands nothing over.
    await standby.kill()
    for (const { url } of [front, other]) {
      await eventually(async () => assert.equal((await fetch(`${url}/readyz`)).status, 503))
    }
  })
})

/** Asks every front again and again, as a load balancer does, and notes the answers that are not 200. */
function watchReadiness(urls: readonly string[]) {
  const unready: string[] = []
  let answers = 0
  let ended = false
  const watch = async (url: string): Promise<void> => {
    while (!ended) {
      const response = await fetch(`${url}/readyz`)
      const body = await response.text()
      if (response.status !== 200) unready.push(body)
      answers++
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const done = Promise.all(urls.map(watch))
  return {
    answers: () => answers,
    async end(): Promise<readonly string[]> {
      ended = true
      await done
      return unready
    },
  }
}
