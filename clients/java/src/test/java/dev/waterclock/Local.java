package dev.waterclock;

import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.Executor;

/** HTTP servers of tests. */
final class Local {
    private Local() {}

    /** A server on a free port of this machine, for every path. */
    static HttpServer serve(Executor threads, HttpHandler handler) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext("/", handler);
        server.start();
        return server;
    }
}
