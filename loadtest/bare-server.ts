/**
 * A bare uWebSockets.js server that answers every GET with the bytes that its parent process sent. Its rate is the
 * limit that the read benchmarks compare with. The server ends when its parent process ends.
 */

import { App, us_socket_local_port } from 'uWebSockets.js'

let body = ''

const app = App()
app.get('/*', (res) => {
  res.cork(() => {
    res.writeHeader('content-type', 'application/json').end(body)
  })
})
process.on('message', (bytes: string) => {
  body = bytes
  process.send?.('ready')
})
process.on('disconnect', () => app.close())
app.listen('127.0.0.1', 0, (socket) => {
  if (socket === false) throw new Error('the bare server cannot listen on any port of 127.0.0.1')
  process.send?.(us_socket_local_port(socket))
})
