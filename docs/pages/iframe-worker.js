// Browsers give no worker to a page that is opened from disk. There the search, which Material runs in one, runs in a
// hidden frame. Material looks for a script of this file's name, and its worker for the name IFrameWorker.
if (location.protocol === "file:") {
  const load = (inside, url) =>
    new Promise((resolve, reject) => {
      const script = inside.document.createElement("script")
      script.src = new URL(url, document.baseURI).href
      script.onload = resolve
      script.onerror = reject
      inside.document.body.append(script)
    })

  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = (...urls) =>
        urls.reduce((before, one) => before.then(() => load(this.inside, one)), Promise.resolve())
      this.ready = load(this.inside, url)
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
